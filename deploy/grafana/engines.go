package main

// engineRow is about fleets of OpenParallax engines.
func engineRow() row {
	return row{"OpenParallax engines", []panel{
		chart("Messages that wait", "short", "For their turn at an engine.",
			gauge("capability", "capgate_engine_messages_waiting"+ofFleet)),
		chart("Messages worked on, and agents", "short",
			"Agents by way of the gateway: messages to an engine without one are not answered.",
			query{"sum by (capability) (capgate_engine_messages_running" + ofFleet + ")",
				"{{capability}} messages"}, query{"sum by (capability) (capgate_engine_agents" + ofFleet +
				")", "{{capability}} agents"}),
		chart("Messages", "reqps", "By how waiting ended; full: too many waited already, left: the "+
			"caller did, unknown: Redis was unavailable.", per("capability, result", "capgate_engine_turns_total"+ofFleet)),
		chart("Time until their turn", "s", "", quantiles("capgate_engine_turn_wait_seconds", ofFleet)...),
		chart("Answers cut off", "reqps", "The caller was too far behind, or the engine's stream broke.",
			per("capability, reason", "capgate_engine_cut_off_total"+ofFleet)),
	}}
}

// engineMessages is about the messages that tenants send to engines.
func engineMessages() panel {
	return chart("Messages to engines", "reqps",
		"By how waiting for their turn ended; full: too many waited already.",
		per("tenant, result", "capgate_tenant_engine_turns_total"+ofTenant))
}
