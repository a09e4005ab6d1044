package main

// ofTenant selects the tenants that were chosen.
const ofTenant = `{tenant=~"$tenant"}`

func tenants() dashboard {
	return dashboard{
		name: "tenants", title: "Tenants and limits", about: "Who calls how much, and what holds them back.",
		variables: []variable{{"tenant", "capgate_tenant_calls_in_flight"}, {"capability", "capgate_fleet_places"}},
		rows: []row{
			{"Tenants", []panel{
				stacks("Calls", "reqps", "Tenants beyond the first metrics.tenants are other.",
					per("tenant", "capgate_tenant_calls_total"+ofTenant)),
				stacks("Calls by code", "reqps", "", per("tenant, code", "capgate_tenant_calls_total"+ofTenant)),
				chart("Broken calls", "percentunit",
					"Share of calls that the gateway or a backend is to blame for, within 5 minutes.",
					query{"tenant:capgate_tenant_calls_broken:ratio_rate5m" + ofTenant, "{{tenant}}"}),
				chart("In flight", "short", "Calls that were routed and have not finished.",
					gauge("tenant", "capgate_tenant_calls_in_flight"+ofTenant)),
				chart("Bytes", "Bps", "Of messages; in is from callers.",
					per("tenant, direction", "capgate_tenant_bytes_total"+ofTenant)),
				chart("Error budget spent", "percentunit", "Of the last three days' objective; 1: all of it.",
					query{"tenant:capgate_tenant_calls_broken:ratio_rate3d" + ofTenant +
						" / on () group_left () capgate:objective:broken_calls", "{{tenant}}"}),
			}},
			{"Limits of tenants", []panel{
				chart("Beyond their limits", "reqps",
					"Calls that a limit refused; shadow: that it would have refused.",
					per("tenant, limit, mode", "capgate_tenant_limited_total"+ofTenant)),
				engineMessages(),
				chart("Leases", "cps", "Questions to Redis how much a replica may use. Own share: Redis did not "+
					"answer, and the replica goes by its own.", per("result", "capgate_limit_leases_total")),
			}},
			{"Overload", []panel{
				chart("Turned away", "reqps", "Calls that a replica with too much to do turned away, of the "+
					"heaviest tenants first.", per("tenant", "capgate_shed_total"+ofTenant)),
				chart("In use", "percentunit", "Of what a replica can take; from 100% on calls are turned away.",
					query{"max by (of) (capgate_overload)", "{{of}}"}),
				chart("Memory, by what has it", "bytes",
					"Bytes that calls, requests and connections have; memory is all of them, and its limit.",
					query{"max by (pool) (capgate_memory_bytes)", "{{pool}}"},
					query{`max(capgate_memory_limit_bytes{pool="memory"})`, "limit"}),
				chart("No room", "cps", "How often a tenant, or an address of callers that are not known yet, "+
					"had its share of the memory already.", per("pool", "capgate_memory_refused_total")),
				chart("In use, each replica", "percentunit", "The most that it uses of anything.",
					query{"max by (instance) (capgate_overload)", "{{instance}}"}),
			}},
			{"Limits of fleets", []panel{
				stacks("Places", "short", "Calls that may be at a fleet's backends at once, used and free.",
					gauge("capability, state", "capgate_fleet_places"+ofFleet)),
				chart("Waiting", "short", "Calls that wait for a place.", gauge("capability", "capgate_fleet_waiting"+ofFleet)),
				chart("Had to wait, and refused", "reqps", "Refused: too many waited already, or one waited for too long.",
					query{"sum by (capability) (rate(capgate_limit_waits_total" + ofFleet + "[$__rate_interval]))",
						"{{capability}} waited"},
					query{"sum by (capability) (rate(capgate_limit_refused_total" + ofFleet + "[$__rate_interval]))",
						"{{capability}} refused"}),
			}},
		},
	}
}
