package main

func overview() dashboard {
	return dashboard{
		name: "overview", title: "Overview", about: "Whether callers get answers, and what keeps them from it.",
		rows: []row{
			{"Now", []panel{
				count("Replicas", "short", "Gateways that answer Prometheus.", `count(capgate_build_info)`),
				count("Calls", "reqps", "Finished calls a second.", `sum(rate(capgate_calls_total[$__rate_interval]))`),
				count("Calls in flight", "short", "", `sum(capgate_calls_in_flight)`),
				stat("Fleets without backends", "short", "Fleets to whose backends no replica can send a call.",
					`sum(max by (capability) (capgate_fleet_backends{state="usable"}) == bool 0)`),
				stat("Replicas without Redis", "short", "They go on with what they know.", `sum(1 - capgate_redis_up)`),
				stat("Bad configurations", "short", "Replicas whose newest configuration is not in force.",
					`sum(1 - capgate_config_last_reload_successful)`),
			}},
			{"Calls", []panel{
				stacks("Calls by code", "reqps", "The gRPC code that ended them.", per("code", "capgate_calls_total")),
				stacks("Calls by capability", "reqps", "Without a name: of which no fleet is known.",
					per("capability", "capgate_calls_total")),
				stacks("Outcomes", "reqps", "What the payload says: a tool's own error is none of the gateway's.",
					per("outcome", `capgate_calls_total{outcome!=""}`)),
				chart("Broken calls", "percentunit",
					"Share of calls that the gateway or a backend is to blame for, within 5 minutes.",
					query{"capability:capgate_calls_broken:ratio_rate5m", "{{capability}}"}),
				chart("Error budget spent", "percentunit", "Of the last three days' objective; 1: all of it.",
					query{"capability:capgate_calls_broken:ratio_rate3d / on () group_left () " +
						"capgate:objective:broken_calls", "{{capability}}"}),
				chart("Time of a call", "s", "From its headers to its end, waiting for people included.",
					quantiles("capgate_call_duration_seconds", `{code="OK"}`)...),
				stacks("Refused", "reqps", "By the gateway, with the reason that callers are told.",
					per("reason", "capgate_refusals_total")),
				stacks("Failed", "reqps", "Calls that the relay ended because something broke.",
					per("failure", "capgate_failures_total")),
				chart("Bytes", "Bps", "Of messages; in is from callers.", per("direction", "capgate_call_bytes_total")),
			}},
		},
	}
}
