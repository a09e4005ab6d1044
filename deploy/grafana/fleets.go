package main

// ofFleet selects the chosen capabilities.
const ofFleet = `{capability=~"$capability"}`

func fleets() dashboard {
	return dashboard{
		name: "fleets", title: "Fleets and health", about: "Calls and backends of each capability.",
		console:   "#/fleets",
		variables: []variable{{"capability", "capgate_fleet_backends"}},
		rows: []row{
			callsRow(),
			toolsRow(),
			backendsRow(),
			backendCallsRow(),
			healthChecksRow(),
			engineRow(),
			backendSourcesRow(),
			affinityRow(),
		},
	}
}

// callsRow returns the row "Calls".
func callsRow() row {
	return row{title: "Calls", panels: []panel{
		stacks("Calls of fleets by code", "reqps", "", per("capability, code", "capgate_calls_total"+ofFleet)),
		stacks("Calls by method", "reqps", "", per("capability, method", "capgate_calls_total"+ofFleet)),
		chart("Calls of fleets in flight", "short", "Routed calls that have not finished.",
			gauge("capability", "capgate_calls_in_flight"+ofFleet)),
		chart("Time of a call, p50", "s", "",
			query{`capability:capgate_call_duration_seconds:p50_rate5m` + ofFleet, "{{capability}}"}),
		chart("Time of a call, p99", "s", "",
			query{`capability:capgate_call_duration_seconds:p99_rate5m` + ofFleet, "{{capability}}"}),
		chart("Broken calls of fleets", "percentunit",
			"Share of calls that failed because of the gateway or a backend, within an hour.",
			query{"capability:capgate_calls_broken:ratio_rate1h" + ofFleet, "{{capability}}"}),
		chart("Time of a call, all chosen capabilities", "s", "",
			quantiles("capgate_call_duration_seconds", ofFleet)...),
		heat("Distribution of the time, all chosen capabilities", "s", "The dots are traced calls.",
			"capgate_call_duration_seconds", ofFleet),
		chart("Bytes of fleets", "Bps", "Bytes of messages; in: from callers.",
			per("capability, direction", "capgate_call_bytes_total"+ofFleet)),
		chart("Retries", "reqps", "Sent, and denied by the retry budget.",
			per("capability, result", "capgate_retries_total"+ofFleet)),
	}}
}

// backendsRow returns the row "Backends".
func backendsRow() row {
	return row{title: "Backends", panels: []panel{
		unusableBackends("Unusable backends of fleets", ofFleet),
		stacks("Backends by state", "short", "The maximum over all replicas.",
			query{"max by (capability, state) (capgate_fleet_backends" + ofFleet + ")", legends("capability, state")}),
		timeline("Panic", "yes: fewer than half are healthy, and calls also go to unhealthy backends.", goodIsZero,
			query{"max by (capability) (capgate_fleet_panic" + ofFleet + ")", "{{capability}}"}),
		timeline("Usable", "no: the fleet has no usable backend at some replica, and its calls fail.", goodIsOne,
			query{`min by (capability) (capgate_fleet_backends{capability=~"$capability", state="usable"}) > bool 0`,
				"{{capability}}"}),
		chart("Ejections", "cps", "Backends ejected because of failed calls; spared: half of the fleet "+
			"has to stay.", per("capability, result", "capgate_ejections_total"+ofFleet)),
	}}
}

// toolsRow returns the row "Tools".
func toolsRow() row { return labelledRow("Tools", "tool", "metrics.tools") }

// backendCallsRow returns the row "Calls of backends".
func backendCallsRow() row { return labelledRow("Calls of backends", "backend", "metrics.backends") }

// labelledRow returns a row of tools or backends.
func labelledRow(title, label, field string) row {
	calls, took := "capgate_"+label+"_calls_total", "capgate_"+label+"_duration_seconds"
	quantile := func(q, legend string) panel {
		return chart("Time of a call by "+label+", "+legend, "s",
			"Of calls that reached a backend, without the wait for approvals.",
			query{"histogram_quantile(" + q + ", sum by (capability, " + label + ", le) (rate(" + took + "_bucket" +
				ofFleet + "[$__rate_interval])))", legends("capability, " + label)})
	}
	return row{title: title, panels: []panel{
		stacks("Calls by "+label, "reqps", "Those beyond the first "+field+" count as other.",
			per("capability, "+label, calls+ofFleet)),
		stacks("Results by "+label, "reqps", "tool_error: reported by the tool; asked: not run yet, because the call "+
			"needs approval; refused: rejected by the gateway; failed: ended without an answer.",
			per("capability, "+label+", result", calls+ofFleet)),
		quantile("0.5", "p50"),
		quantile("0.99", "p99"),
	}}
}

// unusableBackends returns the table of backends that get no calls.
func unusableBackends(title, selector string) panel {
	return panel{title: title, unit: "dateTimeFromNow", kind: table,
		about: "Backends without calls, and since when: the first 10 of a fleet. `capgate status` shows all, and the " +
			"backend's own reason.",
		queries: []query{{"1000 * max by (capability, backend, state, reason) " +
			"(capgate_backend_unusable_since_timestamp_seconds" + selector + ")", "{{capability}}"}}}
}

// healthChecksRow returns the row "Health checks".
func healthChecksRow() row {
	return row{title: "Health checks", panels: []panel{
		chart("Probes", "cps", "By replica.", per("instance", "capgate_health_probes_total")),
		chart("Backends probed", "short", "Each backend is probed by one replica.",
			gauge("instance", "capgate_health_backends_probed")),
		chart("Replicas that share the probing", "short",
			"The replicas that each replica knows, and those with the same view.",
			query{"capgate_health_replicas", "{{instance}} knows"},
			query{"capgate_health_replicas_agreeing", "{{instance}} agrees with"}),
		chart("Staleness", "s", "Time since the last update from other replicas through Redis.",
			query{"capgate_health_staleness_seconds", "{{instance}}"}),
		chart("Unpublished transitions", "short", "They wait for Redis.", gauge("instance", "capgate_health_unposted")),
	}}
}

// backendSourcesRow returns the row "Sources of backends".
func backendSourcesRow() row {
	return row{title: "Sources of backends", optional: true, panels: []panel{
		stacks("Discovered and registered", "short", "Backends that are not listed in the configuration.",
			query{"max by (source) (capgate_registry_backends)", "{{source}}"}),
		chart("Registrations not read", "s",
			"Time since the last successful read; ignored: malformed or not permitted.",
			query{"capgate_registry_stale_seconds", "{{instance}} stale"},
			query{"capgate_registry_ignored_registrations", "{{instance}} ignored"}),
		chart("Kubernetes not followed", "s", "Time since objects could last be followed. The known backends stay.",
			query{"max by (resource, namespace) (capgate_kubernetes_stale_seconds)", "{{resource}} in {{namespace}}"}),
		stacks("Kubernetes", "short", "Backends from EndpointSlices, and known objects.",
			query{"max(capgate_kubernetes_backends)", "backends"},
			query{"max by (resource, namespace) (capgate_kubernetes_objects)", "{{resource}} in {{namespace}}"},
			query{"max(capgate_kubernetes_refused_services)", "refused services"},
			query{"max(capgate_kubernetes_waiting_services)", "services that wait for manifests"}),
		chart("Failures", "cps", "The known backends stay in effect.",
			rate("capgate_kubernetes_failures_total", "Kubernetes"),
			rate("capgate_kubernetes_lists_total", "lists of Kubernetes"),
			rate("capgate_registry_dns_failures_total", "DNS"),
			rate("capgate_registry_store_failures_total", "registrations")),
	}}
}

// affinityRow returns the row "Sessions and artifacts".
func affinityRow() row {
	return row{title: "Sessions and artifacts", optional: true, panels: []panel{
		chart("Known", "short", "Sessions and artifacts whose backend is in memory.",
			gauge("what", "capgate_affinity_known")),
		chart("Lookups", "cps", "Lookups in Redis that calls waited for.",
			per("result", "capgate_affinity_lookups_total")),
		chart("Lost", "cps", "Sessions whose backend died, sessions placed without Redis, artifacts that "+
			"other replicas do not know.",
			rate("capgate_sessions_lost_total", "sessions lost"),
			rate("capgate_sessions_placed_locally_total", "placed locally"),
			rate("capgate_artifacts_dropped_total", "artifacts dropped")),
	}}
}
