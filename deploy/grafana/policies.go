package main

func policies() dashboard {
	return dashboard{
		name: "policies", title: "Policies and approvals", about: "Decisions on calls, approvals, Shields and tools.",
		console: "#/inbox",
		rows: []row{
			{title: "Decisions", panels: []panel{
				stacks("Decisions", "reqps", "On calls of tools.", per("decision", "capgate_policy_decisions_total")),
				stacks("Decided by", "reqps", "The level that decided.",
					per("level", "capgate_policy_decisions_total")),
				chart("From memory", "percentunit", "Share of decisions without a lookup in Redis.",
					query{`sum(rate(capgate_policy_decisions_total{cached="true"}[$__rate_interval])) / ` +
						`sum(rate(capgate_policy_decisions_total[$__rate_interval]))`, "from memory"}),
				chart("Lookups in Redis", "cps", "For decisions that were not in memory.",
					per("result", "capgate_policy_lookups_total")),
				chart("Decisions in memory", "short", "", gauge("instance", "capgate_policy_cache_entries")),
				chart("Staleness of rules", "s", "Above cache.max_stale, calls are rejected.",
					query{"capgate_policy_staleness_seconds", "{{instance}}"}),
				timeline("Rules lost", "yes: Redis has lost rules, and calls whose rules are not in memory are "+
					"rejected.", goodIsZero, query{"capgate_policy_rules_lost", "{{instance}}"}),
				chart("Changes by candidate rules", "reqps", "The current decision, and the candidates'.",
					per("capability, decision, candidate", "capgate_policy_shadow_differences_total")),
			}},
			approvalsRow(),
			{title: "Shields", optional: true, panels: []panel{
				stacks("Verdicts", "reqps", "", per("shield, decision", "capgate_shield_verdicts_total")),
				chart("No answer", "cps", "Missing or malformed answers.",
					per("shield, kind", "capgate_shield_failures_total")),
				chart("Time of a Shield's verdict", "s", "", quantiles("capgate_shield_duration_seconds", "")...),
			}},
			{title: "Tools", optional: true, panels: []panel{
				stacks("Tools by state", "short", "Drifted: changed since they were accepted; they need approval.",
					query{"max by (capability, state) (capgate_catalog_tools)", legends("capability, state")}),
				chart("Discoveries", "cps", "", per("capability, result", "capgate_catalog_discoveries_total")),
				chart("Last discovered", "s", "Time since the last successful discovery at any replica.",
					query{"min by (capability) (capgate_catalog_discovery_age_seconds)", "{{capability}}"}),
			}},
		},
	}
}

func approvalsRow() row {
	return row{title: "Approvals", panels: []panel{
		chart("Calls that wait for approval", "short", "", gauge("instance", "capgate_approvals_waiting")),
		chart("Pending approvals", "short", "By tenant, of all replicas.",
			query{"max by (tenant) (capgate_approvals_pending)", "{{tenant}}"}),
		chart("Oldest pending approval", "s", "Its age, by tenant. At the time to answer it expires.",
			query{"max by (tenant) (capgate_approvals_pending_age_seconds)", "{{tenant}}"},
			query{"max(capgate_approvals_ttl_seconds)", "time to answer"}),
		chart("Time to answer", "s", "From the creation of an approval to its answer, by tenant.",
			query{"histogram_quantile(0.5, sum by (tenant, le) (rate(capgate_approvals_answer_seconds_bucket" +
				"[$__rate_interval])))", "{{tenant}}: median"},
			query{"histogram_quantile(0.9, sum by (tenant, le) (rate(capgate_approvals_answer_seconds_bucket" +
				"[$__rate_interval])))", "{{tenant}}: 90%"}),
		chart("Asked, approved, denied, expired", "cps", "Granted: calls that ran by an approval of their session.",
			per("event", "capgate_approvals_events_total")),
		chart("Rejected for approvals", "reqps", "", per("reason", "capgate_approvals_refused_total")),
		chart("Calls with idempotency keys", "reqps",
			"First: carried out. Replayed, joined: got the stored response. Unknown: the outcome of the first "+
				"call is unknown.", per("result", "capgate_idempotency_calls_total")),
		chart("Idempotency: in progress", "short", "",
			query{"sum(capgate_idempotency_running)", "carried out"},
			query{"sum(capgate_idempotency_waiting)", "wait"}),
		chart("Notices: events", "cps", "By destination. Late: the approval was over before. Dead: given up.",
			per("destination, result", "capgate_webhook_events_total")),
		chart("Notices: requests", "cps", "Failed requests, and retries.",
			per("destination, kind", "capgate_webhook_requests_total")),
		chart("Notices: backlog", "short", "Of all replicas.",
			query{"max by (destination) (capgate_webhook_queued)", "{{destination}}: queued"},
			query{"max by (destination) (capgate_webhook_dead_letters)", "{{destination}}: dead letters"}),
	}}
}
