package main

// ofTenant selects the chosen tenants.
const ofTenant = `{tenant=~"$tenant"}`

func tenants() dashboard {
	return dashboard{
		name: "tenants", title: "Tenants and limits", about: "Calls of tenants, and the limits that they meet.",
		console:   "#/tenants",
		variables: []variable{{"tenant", "capgate_tenant_calls_in_flight"}, {"capability", "capgate_fleet_places"}},
		rows: []row{
			{title: "Tenants", panels: []panel{
				stacks("Calls of tenants", "reqps", "Tenants beyond the first metrics.tenants count as other.",
					per("tenant", "capgate_tenant_calls_total"+ofTenant)),
				stacks("Calls of tenants by code", "reqps", "",
					per("tenant, code", "capgate_tenant_calls_total"+ofTenant)),
				chart("Broken calls of tenants", "percentunit",
					"Share of calls that failed because of the gateway or a backend, within 5 minutes.",
					query{"tenant:capgate_tenant_calls_broken:ratio_rate5m" + ofTenant, "{{tenant}}"}),
				chart("Calls of tenants in flight", "short", "Routed calls that have not finished.",
					gauge("tenant", "capgate_tenant_calls_in_flight"+ofTenant)),
				chart("Bytes of tenants", "Bps", "Bytes of messages; in: from callers.",
					per("tenant, direction", "capgate_tenant_bytes_total"+ofTenant)),
				chart("Error budget spent by tenants", "percentunit",
					"Of the objective of the last three days; 1: all of it.",
					query{"tenant:capgate_tenant_calls_broken:ratio_rate3d" + ofTenant +
						" / on () group_left () capgate:objective:broken_calls", "{{tenant}}"}),
			}},
			{title: "Limits of tenants", optional: true, panels: []panel{
				chart("Beyond their limits", "reqps",
					"Calls that a limit rejected; shadow: would have rejected.",
					per("tenant, limit, mode", "capgate_tenant_limited_total"+ofTenant)),
				useOfQuotas(),
				engineMessages(),
				chart("Leases", "cps", "Renewals of replicas' permits in Redis. Own share: Redis did not "+
					"answer, and the replica applies its local share.", per("result", "capgate_limit_leases_total")),
			}},
			{title: "Overload", panels: []panel{
				chart("Shed calls", "reqps", "Calls that overloaded replicas rejected, of the tenants with the "+
					"highest load first.", per("tenant", "capgate_shed_total"+ofTenant)),
				chart("Utilization", "percentunit", "Of a replica's limits; at 100%, calls are shed.",
					query{"max by (of) (capgate_overload)", "{{of}}"}),
				chart("Memory by pool", "bytes",
					"Bytes of calls, requests and connections; memory: their sum, with its limit.",
					query{"max by (pool) (capgate_memory_bytes)", "{{pool}}"},
					query{`max(capgate_memory_limit_bytes{pool="memory"})`, "limit"}),
				chart("Memory rejections", "cps",
					"A tenant, or an address of unauthenticated clients, had used up its share of the memory.",
					per("pool", "capgate_memory_refused_total")),
				chart("Utilization by replica", "percentunit", "Of the most used resource.",
					query{"max by (instance) (capgate_overload)", "{{instance}}"}),
			}},
			{title: "Limits of fleets", optional: true, panels: []panel{
				stacks("Concurrency limit", "short", "Permits for concurrent calls, used and free.",
					gauge("capability, state", "capgate_fleet_places"+ofFleet)),
				chart("Waiting", "short", "Calls that wait for a permit.",
					gauge("capability", "capgate_fleet_waiting"+ofFleet)),
				chart("Waited, and rejected", "reqps", "Rejected: the queue was full, or the wait too long.",
					query{"sum by (capability) (rate(capgate_limit_waits_total" + ofFleet + "[$__rate_interval]))",
						"{{capability}} waited"},
					query{"sum by (capability) (rate(capgate_limit_refused_total" + ofFleet + "[$__rate_interval]))",
						"{{capability}} rejected"}),
			}},
		},
	}
}

// useOfQuotas returns the panel of the used part of the calls a day and a month.
func useOfQuotas() panel {
	return chart("Use of quotas", "percentunit", "Of calls a day and a month: the most used one of a tenant. At 100%, "+
		"calls are rejected.", query{"max by (tenant, limit) (capgate_limit_used_ratio" + ofTenant + ")",
		legends("tenant, limit")})
}
