package main

func policies() dashboard {
	return dashboard{
		name: "policies", title: "Policies and approvals", about: "What may run, who was asked, and which tools there are.",
		rows: []row{
			{"Decisions", []panel{
				stacks("Decisions", "reqps", "On calls of tools.", per("decision", "capgate_policy_decisions_total")),
				stacks("Decided by", "reqps", "The level that decided.", per("level", "capgate_policy_decisions_total")),
				chart("From memory", "percentunit", "Share of decisions that needed no question to Redis.",
					query{`sum(rate(capgate_policy_decisions_total{cached="true"}[$__rate_interval])) / sum(rate(capgate_policy_decisions_total[$__rate_interval]))`, "from memory"}),
				chart("Questions to Redis", "cps", "For decisions that were not in memory.",
					per("result", "capgate_policy_lookups_total")),
				chart("Decisions in memory", "short", "", gauge("instance", "capgate_policy_cache_entries")),
				chart("Staleness of rules", "s", "Calls are refused once it is more than policies.max_stale.",
					query{"capgate_policy_staleness_seconds", "{{instance}}"}),
				chart("Rules lost", "short", "1 while Redis has fewer rules than it had: what is not in memory "+
					"is refused.", query{"capgate_policy_rules_lost", "{{instance}}"}),
				chart("What candidate rules would change", "reqps", "Decision now, and theirs.",
					per("capability, decision, candidate", "capgate_policy_shadow_differences_total")),
			}},
			{"Approvals", []panel{
				chart("Calls that wait for an answer", "short", "", gauge("instance", "capgate_approvals_waiting")),
				chart("Approvals that nobody has answered", "short", "By tenant, as any replica counts them.",
					query{"max by (tenant) (capgate_approvals_pending)", "{{tenant}}"}),
				chart("The oldest of them", "s", "How long it waits, by tenant.",
					query{"max by (tenant) (capgate_approvals_pending_age_seconds)", "{{tenant}}"}),
				chart("Approvals", "cps", "Granted: calls that ran because of what was answered for their session.",
					per("event", "capgate_approvals_events_total")),
				chart("Refused for approvals", "reqps", "", per("reason", "capgate_approvals_refused_total")),
				chart("Calls with idempotency keys", "reqps",
					"First: carried out. Replayed, joined: got the first one's answer. Unknown: nobody knows "+
						"whether it was carried out.", per("result", "capgate_idempotency_calls_total")),
				chart("Idempotency: under way", "short", "",
					query{"sum(capgate_idempotency_running)", "carried out"}, query{"sum(capgate_idempotency_waiting)", "wait"}),
				chart("Webhook: events", "cps", "Late: nobody could answer any more. Dead: given up.",
					per("result", "capgate_webhook_events_total")),
				chart("Webhook: requests", "cps", "That failed, and that were not an event's first.",
					per("kind", "capgate_webhook_requests_total")),
				chart("Webhook: backlog", "short", "Of all replicas.",
					query{"max(capgate_webhook_queued)", "queued"}, query{"max(capgate_webhook_dead_letters)", "dead letters"}),
			}},
			{"Shields", []panel{
				stacks("Verdicts", "reqps", "", per("shield, decision", "capgate_shield_verdicts_total")),
				chart("No answer", "cps", "Absent, or not so that anybody understands it.",
					per("shield, kind", "capgate_shield_failures_total")),
				chart("Time to answer", "s", "", quantiles("capgate_shield_duration_seconds", "")...),
			}},
			{"Tools", []panel{
				stacks("Tools", "short", "Drifted: changed since somebody accepted them, and asked about.",
					query{"max by (capability, state) (capgate_catalog_tools)", legends("capability, state")}),
				chart("Discoveries", "cps", "", per("capability, result", "capgate_catalog_discoveries_total")),
				chart("Last discovered", "s", "Since any replica last learned what a capability's tools are.",
					query{"min by (capability) (capgate_catalog_discovery_age_seconds)", "{{capability}}"}),
			}},
		},
	}
}
