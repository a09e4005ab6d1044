package main

// ofFleet selects the capabilities that were chosen.
const ofFleet = `{capability=~"$capability"}`

func fleets() dashboard {
	return dashboard{
		name: "fleets", title: "Fleets and health", about: "Each capability's calls, and its backends.",
		variables: []variable{{"capability", "capgate_fleet_backends"}},
		rows: []row{
			callsRow(),
			backendsRow(),
			healthChecksRow(),
			engineRow(),
			backendSourcesRow(),
			affinityRow(),
		},
	}
}

// callsRow is the row "Calls".
func callsRow() row {
	return row{"Calls", []panel{
		stacks("Calls by code", "reqps", "", per("capability, code", "capgate_calls_total"+ofFleet)),
		stacks("Calls by method", "reqps", "", per("capability, method", "capgate_calls_total"+ofFleet)),
		chart("In flight", "short", "Calls that were routed and have not finished.",
			gauge("capability", "capgate_calls_in_flight"+ofFleet)),
		chart("Time of a call, p50", "s", "",
			query{`capability:capgate_call_duration_seconds:p50_rate5m` + ofFleet, "{{capability}}"}),
		chart("Time of a call, p99", "s", "",
			query{`capability:capgate_call_duration_seconds:p99_rate5m` + ofFleet, "{{capability}}"}),
		chart("Broken calls", "percentunit",
			"Share of calls that the gateway or a backend is to blame for, within an hour.",
			query{"capability:capgate_calls_broken:ratio_rate1h" + ofFleet, "{{capability}}"}),
		chart("Time of a call, all of these", "s", "", quantiles("capgate_call_duration_seconds", ofFleet)...),
		chart("Bytes", "Bps", "Of messages; in is from callers.",
			per("capability, direction", "capgate_call_bytes_total"+ofFleet)),
		chart("Second tries", "reqps", "Sent, and denied as the budget was spent.",
			per("capability, result", "capgate_retries_total"+ofFleet)),
	}}
}

// backendsRow is the row "Backends".
func backendsRow() row {
	return row{"Backends", []panel{
		stacks("Backends by state", "short", "As the replica sees it that sees the most in it.",
			query{"max by (capability, state) (capgate_fleet_backends" + ofFleet + ")", legends("capability, state")}),
		chart("Panic", "short", "1: fewer than half are healthy, and calls go to all that are not surely dead.",
			query{"max by (capability) (capgate_fleet_panic" + ofFleet + ")", "{{capability}}"}),
		chart("Ejections", "cps", "Backends taken out by how calls ended; spared: half of the fleet "+
			"must stay.", per("capability, result", "capgate_ejections_total"+ofFleet)),
	}}
}

// healthChecksRow is the row "Health checks".
func healthChecksRow() row {
	return row{"Health checks", []panel{
		chart("Probes", "cps", "Made by each replica.", per("instance", "capgate_health_probes_total")),
		chart("Backends probed", "short", "Each is probed by one replica.",
			gauge("instance", "capgate_health_backends_probed")),
		chart("Replicas", "short", "That each replica knows of, and that say what it knows.",
			query{"capgate_health_replicas", "{{instance}} knows"},
			query{"capgate_health_replicas_agreeing", "{{instance}} agrees with"}),
		chart("Staleness", "s", "Since Redis was last seen to say what others know.",
			query{"capgate_health_staleness_seconds", "{{instance}}"}),
		chart("Transitions to be told", "short", "They wait for Redis.", gauge("instance", "capgate_health_unposted")),
	}}
}

// backendSourcesRow is the row "Where backends come from".
func backendSourcesRow() row {
	return row{"Where backends come from", []panel{
		stacks("Found and registered", "short", "Backends that no file lists one by one.",
			query{"max by (source) (capgate_registry_backends)", "{{source}}"}),
		chart("Registrations not read", "s",
			"Since they could be read last; ignored ones make no sense, or are not permitted.",
			query{"capgate_registry_stale_seconds", "{{instance}} stale"},
			query{"capgate_registry_ignored_registrations", "{{instance}} ignored"}),
		chart("Failures", "cps", "What was known stays in force.",
			rate("capgate_registry_dns_failures_total", "DNS"),
			rate("capgate_registry_store_failures_total", "registrations")),
	}}
}

// affinityRow is the row "Sessions and artifacts".
func affinityRow() row {
	return row{"Sessions and artifacts", []panel{
		chart("Known", "short", "Of which it is in memory which backend has them.",
			gauge("what", "capgate_affinity_known")),
		chart("Lookups", "cps", "Questions to Redis of calls that waited for the answer.",
			per("result", "capgate_affinity_lookups_total")),
		chart("Lost", "cps", "Sessions whose backend died, sessions placed without Redis, artifacts that "+
			"other replicas will not know of.",
			rate("capgate_sessions_lost_total", "sessions lost"),
			rate("capgate_sessions_placed_locally_total", "placed locally"),
			rate("capgate_artifacts_dropped_total", "artifacts dropped")),
	}}
}
