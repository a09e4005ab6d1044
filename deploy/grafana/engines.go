package main

// engineRow returns the row of OpenParallax engines.
func engineRow() row {
	return row{title: "OpenParallax engines", optional: true, panels: []panel{
		chart("Waiting messages", "short", "Messages that wait for their turn at an engine.",
			gauge("capability", "capgate_engine_messages_waiting"+ofFleet)),
		chart("Running messages, and agents", "short",
			"Agents that are connected through the gateway: an engine without an agent answers no messages.",
			query{"sum by (capability) (capgate_engine_messages_running" + ofFleet + ")",
				"{{capability}} messages"}, query{"sum by (capability) (capgate_engine_agents" + ofFleet +
				")", "{{capability}} agents"}),
		chart("Messages", "reqps", "By the outcome of waiting; full: the queue was full, left: the "+
			"caller left, unknown: Redis was unavailable.", per("capability, result", "capgate_engine_turns_total"+
			ofFleet)),
		chart("Wait for a turn", "s", "", quantiles("capgate_engine_turn_wait_seconds", ofFleet)...),
		chart("Answers cut off", "reqps", "The caller was too far behind, or the engine's stream broke.",
			per("capability, reason", "capgate_engine_cut_off_total"+ofFleet)),
	}}
}

// engineMessages returns the panel of tenants' messages to engines.
func engineMessages() panel {
	return chart("Messages to engines", "reqps",
		"By the outcome of waiting for a turn; full: the queue was full.",
		per("tenant, result", "capgate_tenant_engine_turns_total"+ofTenant))
}
