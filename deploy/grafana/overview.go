package main

func overview() dashboard {
	return dashboard{
		name: "overview", title: "Overview", about: "The success of calls, and the causes of failures.",
		console: "#/",
		rows: []row{
			{title: "Now", panels: []panel{
				count("Replicas", "short", "Gateways that answer Prometheus.", `count(capgate_build_info)`),
				count("Finished calls", "reqps", "A second.", `sum(rate(capgate_calls_total[$__rate_interval]))`),
				count("Calls in flight", "short", "", `sum(capgate_calls_in_flight)`),
				stat("Fleets without backends", "short", "Fleets without a usable backend at any replica.",
					`sum(max by (capability) (capgate_fleet_backends{state="usable"}) == bool 0)`),
				stat("Replicas without Redis", "short", "They work from memory.", `sum(1 - capgate_redis_up)`),
				stat("Bad configurations", "short", "Replicas whose newest configuration is invalid.",
					`sum(1 - capgate_config_last_reload_successful)`),
			}},
			{title: "Backends", panels: []panel{unusableBackends("Unusable backends", "")}},
			{title: "Calls", panels: []panel{
				stacks("Calls by code", "reqps", "By gRPC code.", per("code", "capgate_calls_total")),
				stacks("Calls by capability", "reqps", "Without a name: calls of unknown fleets.",
					per("capability", "capgate_calls_total")),
				stacks("Outcomes", "reqps", "By the payload: a tool's own error is not an error of the gateway.",
					per("outcome", `capgate_calls_total{outcome!=""}`)),
				chart("Broken calls", "percentunit",
					"Share of calls that failed because of the gateway or a backend, within 5 minutes.",
					query{"capability:capgate_calls_broken:ratio_rate5m", "{{capability}}"}),
				chart("Error budget spent", "percentunit", "Of the objective of the last three days; 1: all of it.",
					query{"capability:capgate_calls_broken:ratio_rate3d / on () group_left () " +
						"capgate:objective:broken_calls", "{{capability}}"}),
				chart("Time of a call", "s", "From the headers to the end of a call, without the wait for approvals.",
					quantiles("capgate_call_duration_seconds", `{code="OK"}`)...),
				heat("Distribution of the time of a call", "s", "The dots are traced calls.",
					"capgate_call_duration_seconds", `{code="OK"}`),
				stacks("Refused", "reqps", "Calls rejected by the gateway, by reason.",
					per("reason", "capgate_refusals_total")),
				chart("Asked", "reqps", "Calls that did not run yet because they need approval. They are not refused.",
					rate("capgate_asked_total", "asked")),
				stacks("Failed", "reqps", "Calls that the relay ended because of a failure.",
					per("failure", "capgate_failures_total")),
				chart("Bytes", "Bps", "Bytes of messages; in: from callers.",
					per("direction", "capgate_call_bytes_total")),
			}},
		},
	}
}
