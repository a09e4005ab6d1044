package main

// ofReplica selects the chosen replicas.
const ofReplica = `{instance=~"$instance"}`

// process returns a metric of the Go runtime or the process, restricted to gateways.
func process(metric string) string {
	return metric + ofReplica + ` and on (instance, job) capgate_build_info`
}

func gateway() dashboard {
	return dashboard{
		name: "gateway", title: "The gateway itself",
		about:     "Processes, connections, Redis and configuration of replicas.",
		console:   "#/",
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

// replicasRow returns the row "Replicas".
func replicasRow() row {
	return row{title: "Replicas", panels: []panel{
		chart("Versions", "short", "Replicas by version.",
			query{"count by (version, revision, goversion) (capgate_build_info" + ofReplica + ")",
				legends("version, revision, goversion")}),
		chart("Calls by replica", "reqps", "", per("instance", "capgate_calls_total"+ofReplica)),
		chart("Connections to backends", "short", "", gauge("instance", "capgate_upstream_connections"+ofReplica)),
		chart("Log lines lost", "cps", "The sink was slow or failed; calls never wait for it.",
			per("instance", "capgate_log_lines_dropped_total"+ofReplica)),
		chart("Audit log", "cps", "Records written and lost.", rate("capgate_audit_records_total"+ofReplica, "written"),
			query{"sum by (reason) (rate(capgate_audit_lost_total" + ofReplica + "[$__rate_interval]))",
				"lost: {{reason}}"}),
		timeline("Audit log fails", "yes: it cannot be written; with audit.required, calls are rejected.", goodIsZero,
			query{"capgate_audit_failing" + ofReplica, "{{instance}}"}),
	}}
}

// callersRow returns the row "Authentication and connections".
func callersRow() row {
	return row{title: "Authentication and connections", panels: []panel{
		stacks("Authentications", "reqps", "From memory, or by a lookup in Redis or at an issuer; refused: the "+
			"credential is invalid; away: Redis or the issuer did not answer.",
			per("kind, result", "capgate_identifications_total"+ofReplica)),
		chart("Keys in memory", "short", "Keys and tenants of Redis, and negative entries.",
			gauge("instance", "capgate_identity_cache_entries"+ofReplica)),
		chart("Staleness of keys", "s", "Above cache.max_stale, calls with keys of Redis are rejected.",
			query{"capgate_identity_staleness_seconds" + ofReplica, "{{instance}}"}),
		timeline("Issuers", "no: the last fetch of the issuer's keys failed; known keys stay valid.", goodIsOne,
			query{"capgate_issuer_up" + ofReplica, "{{issuer}} {{instance}}"}),
		chart("Fetches of issuers' keys", "cps", "Limited: skipped, because of too many unknown keys.",
			per("issuer, result", "capgate_issuer_fetches_total"+ofReplica)),
		chart("Connections refused", "cps",
			"network: too many of one address; reserved: the rest is for addresses of authenticated "+
				"clients; handshake: too many of one address waited; memory: their owner has used up its share; "+
				"evicted: one without a credential made room for another.",
			per("reason", "capgate_connections_refused_total"+ofReplica),
			query{"sum by (reason) (rate(capgate_admin_connections_refused_total" + ofReplica + "[$__rate_interval]))",
				"admin API: {{reason}}"}),
		chart("Waiting TLS handshakes", "short",
			"They wait for a processor: networks alternate, and the newest of a network is first.",
			gauge("instance", "capgate_connections_handshakes_waiting"+ofReplica)),
		chart("PROXY protocol refused", "cps",
			"Connections with an invalid PROXY protocol header.",
			per("instance", "capgate_proxy_protocol_refused_total"+ofReplica)),
	}}
}

// tracesRow returns the row "Traces".
func tracesRow() row {
	return row{title: "Traces", optional: true, panels: []panel{
		chart("Spans", "cps", "Exported to the collector, and lost.",
			rate("capgate_trace_spans_exported_total"+ofReplica, "exported"),
			query{"sum by (reason) (rate(capgate_trace_spans_dropped_total" + ofReplica +
				"[$__rate_interval]))", "lost: {{reason}}"}),
		chart("Waiting spans", "short", "Spans that wait for export.",
			gauge("instance", "capgate_trace_spans_waiting"+ofReplica)),
	}}
}

// redisRow returns the row "Redis".
func redisRow() row {
	return row{title: "Redis", panels: []panel{
		timeline("Redis up", "no: Redis is unavailable.", goodIsOne,
			query{"capgate_redis_up" + ofReplica, "{{instance}}"}),
		stacks("Commands", "cps", "By purpose.", per("for", "capgate_redis_commands_total"+ofReplica)),
		chart("Errors", "cps", "Failed or not sent; malformed: values that cannot be decoded; "+
			"unreplicated: rejected because too few replicas had a write; not signed: written by someone else.",
			query{"sum by (instance) (rate(capgate_redis_errors_total" + ofReplica + "[$__rate_interval]))",
				"{{instance}} errors"},
			query{"sum by (instance) (rate(capgate_redis_malformed_total" + ofReplica +
				"[$__rate_interval]))", "{{instance}} malformed"},
			query{"sum by (instance) (rate(capgate_redis_unreplicated_total" + ofReplica +
				"[$__rate_interval]))", "{{instance}} unreplicated"},
			query{"sum by (kind) (rate(capgate_redis_rejected_total" + ofReplica + "[$__rate_interval]))",
				"{{kind}} not signed"}),
		chart("Calls of past days", "cps", "Kept for the search of past calls, and lost: Redis did not accept them.",
			rate("capgate_past_calls_kept_total"+ofReplica, "kept"),
			rate("capgate_past_calls_lost_total"+ofReplica, "lost")),
		timeline("Calls of past days fail", "yes: calls cannot be kept for the search of past calls.", goodIsZero,
			query{"capgate_past_calls_failing" + ofReplica, "{{instance}}"}),
		chart("Calls without a history of their own", "cps", "Counted as other, because history.series is reached.",
			per("kind", "capgate_history_others_total"+ofReplica)),
	}}
}

// configurationRow returns the row "Configuration".
func configurationRow() row {
	return row{title: "Configuration", panels: []panel{
		timeline("Configuration valid", "no: the newest one is invalid, and the previous one is in effect.", goodIsOne,
			query{"capgate_config_last_reload_successful" + ofReplica, "{{instance}}"}),
		chart("Age", "s", "Time since the current one was loaded.",
			query{"time() - capgate_config_last_reload_success_timestamp_seconds" + ofReplica, "{{instance}}"}),
		chart("Failed reloads", "short", "In the last hour.",
			query{"increase(capgate_config_reload_failures_total" + ofReplica + "[1h])", "{{instance}}"}),
	}}
}

// processRow returns the row "Process".
func processRow() row {
	return row{title: "Process", panels: []panel{
		chart("Processors", "short", "In use.",
			query{"rate(process_cpu_seconds_total" + ofReplica +
				"[$__rate_interval]) and on (instance, job) capgate_build_info", "{{instance}}"}),
		chart("Memory", "bytes", "Resident memory, and the heap as a part of it.",
			query{process("process_resident_memory_bytes"), "{{instance}} resident"},
			query{process("go_memstats_heap_inuse_bytes"), "{{instance}} heap"}),
		chart("Goroutines", "short", "", query{process("go_goroutines"), "{{instance}}"}),
		chart("Files", "percentunit", "Open files, including connections, of the maximum.",
			query{"process_open_fds" + ofReplica +
				" / process_max_fds and on (instance, job) capgate_build_info", "{{instance}}"}),
		chart("Garbage collection", "percentunit", "Share of time in stop-the-world pauses.",
			query{"rate(go_gc_duration_seconds_sum" + ofReplica +
				"[$__rate_interval]) and on (instance, job) capgate_build_info", "{{instance}}"}),
		stacks("Panics", "cps", "Defects: each ended one call, one iteration of a loop, or the connections "+
			"of one shard. The log has the stacks.", per("goroutine", "capgate_panics_total"+ofReplica)),
		chart("Uptime", "s", "", query{"time() - process_start_time_seconds" + ofReplica +
			" and on (instance, job) capgate_build_info", "{{instance}}"}),
	}}
}
