package main

// ofReplica selects the replicas that were chosen.
const ofReplica = `{instance=~"$instance"}`

// process is a metric of the Go runtime or of the process, of gateways alone.
func process(metric string) string {
	return metric + ofReplica + ` and on (instance, job) capgate_build_info`
}

func gateway() dashboard {
	return dashboard{
		name: "gateway", title: "The gateway itself", about: "Replicas as processes, and what they share.",
		variables: []variable{{"instance", "capgate_build_info"}},
		rows: []row{
			replicasRow(),
			callersRow(),
			tracesRow(),
			redisRow(),
			configurationRow(),
			processRow(),
		},
	}
}

// replicasRow is the row "Replicas".
func replicasRow() row {
	return row{"Replicas", []panel{
		chart("Versions", "short", "Replicas of each.",
			query{"count by (version, revision, goversion) (capgate_build_info" + ofReplica + ")",
				legends("version, revision, goversion")}),
		chart("Calls", "reqps", "", per("instance", "capgate_calls_total"+ofReplica)),
		chart("Connections to backends", "short", "", gauge("instance", "capgate_upstream_connections"+ofReplica)),
		chart("Log lines lost", "cps", "The sink was slow or failed; calls never wait for it.",
			per("instance", "capgate_log_lines_dropped_total"+ofReplica)),
		chart("Audit log", "cps", "Records written, and lost.", rate("capgate_audit_records_total"+ofReplica, "written"),
			query{"sum by (reason) (rate(capgate_audit_lost_total" + ofReplica + "[$__rate_interval]))", "lost: {{reason}}"}),
		chart("Audit log fails", "short",
			"1 while it cannot be written; with audit.required calls are refused.",
			query{"capgate_audit_failing" + ofReplica, "{{instance}}"}),
	}}
}

// callersRow is the row "Who calls".
func callersRow() row {
	return row{"Who calls", []panel{
		stacks("Found out", "reqps", "From memory, or asked of Redis or an issuer; refused: the "+
			"credential is no good; away: who would know did not answer.",
			per("kind, result", "capgate_identifications_total"+ofReplica)),
		chart("Keys in memory", "short", "Keys and tenants of Redis, and ids that are not there.",
			gauge("instance", "capgate_identity_cache_entries"+ofReplica)),
		chart("Issuers answer", "short", "0: the keys of its tokens could not be fetched the last time; known ones go on.",
			query{"capgate_issuer_up" + ofReplica, "{{issuer}} {{instance}}"}),
		chart("Fetches of issuers' keys", "cps", "Limited: left out, as unknown keys were shown too often.",
			per("issuer, result", "capgate_issuer_fetches_total"+ofReplica)),
		chart("Connections refused", "cps",
			"network: too many of one address; reserved: what is left is for addresses of which somebody "+
				"has shown a credential; handshake: too many of one address waited; memory: their owner has no room for another.",
			per("reason", "capgate_connections_refused_total"+ofReplica)),
		chart("TLS handshakes that wait", "short",
			"For a processor: networks take turns, and the newest of a network goes first.",
			gauge("instance", "capgate_connections_handshakes_waiting"+ofReplica)),
		chart("PROXY protocol refused", "cps",
			"Connections whose header says something else than who calls.",
			per("instance", "capgate_proxy_protocol_refused_total"+ofReplica)),
	}}
}

// tracesRow is the row "Traces".
func tracesRow() row {
	return row{"Traces", []panel{
		chart("Spans", "cps", "That the collector has taken, and that were lost.",
			rate("capgate_trace_spans_exported_total"+ofReplica, "exported"),
			query{"sum by (reason) (rate(capgate_trace_spans_dropped_total" + ofReplica +
				"[$__rate_interval]))", "lost: {{reason}}"}),
		chart("Spans that wait", "short", "For the collector.",
			gauge("instance", "capgate_trace_spans_waiting"+ofReplica)),
	}}
}

// redisRow is the row "Redis".
func redisRow() row {
	return row{"Redis", []panel{
		chart("Redis answers", "short", "0: Redis is unavailable.", query{"capgate_redis_up" + ofReplica, "{{instance}}"}),
		stacks("Commands", "cps", "By what they are for.", per("for", "capgate_redis_commands_total"+ofReplica)),
		chart("Errors", "cps", "Failed or not sent; malformed: values that nobody understands; "+
			"unreplicated: refused, as too few replicas had a write; not signed: somebody else wrote it.",
			query{"sum by (instance) (rate(capgate_redis_errors_total" + ofReplica + "[$__rate_interval]))",
				"{{instance}} errors"},
			query{"sum by (instance) (rate(capgate_redis_malformed_total" + ofReplica +
				"[$__rate_interval]))", "{{instance}} malformed"},
			query{"sum by (instance) (rate(capgate_redis_unreplicated_total" + ofReplica +
				"[$__rate_interval]))", "{{instance}} unreplicated"},
			query{"sum by (kind) (rate(capgate_redis_rejected_total" + ofReplica + "[$__rate_interval]))",
				"{{kind}} not signed"}),
	}}
}

// configurationRow is the row "Configuration".
func configurationRow() row {
	return row{"Configuration", []panel{
		chart("In force", "short", "0: the newest is bad, and what was before it is in force.",
			query{"capgate_config_last_reload_successful" + ofReplica, "{{instance}}"}),
		chart("Age", "s", "Since that in force was loaded.",
			query{"time() - capgate_config_last_reload_success_timestamp_seconds" + ofReplica, "{{instance}}"}),
		chart("Bad reloads", "short", "In the last hour.",
			query{"increase(capgate_config_reload_failures_total" + ofReplica + "[1h])", "{{instance}}"}),
	}}
}

// processRow is the row "Process".
func processRow() row {
	return row{"Process", []panel{
		chart("Processors", "short", "In use.",
			query{"rate(process_cpu_seconds_total" + ofReplica +
				"[$__rate_interval]) and on (instance, job) capgate_build_info", "{{instance}}"}),
		chart("Memory", "bytes", "Resident, and of it the heap.",
			query{process("process_resident_memory_bytes"), "{{instance}} resident"},
			query{process("go_memstats_heap_inuse_bytes"), "{{instance}} heap"}),
		chart("Goroutines", "short", "", query{process("go_goroutines"), "{{instance}}"}),
		chart("Files", "percentunit", "Open, connections included, of those that the process may open.",
			query{"process_open_fds" + ofReplica +
				" / process_max_fds and on (instance, job) capgate_build_info", "{{instance}}"}),
		chart("Garbage collection", "percentunit", "Share of time that the program stood still.",
			query{"rate(go_gc_duration_seconds_sum" + ofReplica +
				"[$__rate_interval]) and on (instance, job) capgate_build_info", "{{instance}}"}),
		stacks("Panics", "cps", "Defects: each ended one call, one round of a loop, or the connections "+
			"of one shard. The log has their stacks.", per("goroutine", "capgate_panics_total"+ofReplica)),
		chart("Running for", "s", "", query{"time() - process_start_time_seconds" + ofReplica +
			" and on (instance, job) capgate_build_info", "{{instance}}"}),
	}}
}
