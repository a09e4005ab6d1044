package config

// removed says what to write in place of fields that earlier versions had.
var removed = map[string]string{
	"approvals.key_file":           secretFile,
	"approvals.max_pending":        "leave it out: a tenant may have 10,000 pending approvals",
	"approvals.notices[].attempts": "leave it out: an event is a dead letter after 10 requests",
	"approvals.notices[].timeout":  "leave it out: a request has 10s",
	"approvals.webhook": "write approvals.notices: [{name: webhook, …}] with its fields, except " +
		"timeout and attempts",
	"artifacts.public_url":                "signed URLs begin with public_url",
	"artifacts.signing_key_file":          secretFile,
	"audit.queue":                         "leave it out: 8192 records may wait",
	"client_limits.connection_open_calls": leaveLimits,
	"client_limits.network_connections":   leaveLimits,
	"client_limits.network_handshakes":    leaveLimits,
	"client_limits.network_open_calls":    leaveLimits,
	"client_limits.open_calls":            leaveLimits,
	"client_limits.reserved_connections":  leaveLimits,
	"cors.max_age":                        "leave it out: browsers cache the permissions for 10m",
	"fleets[].discovery.timeout":          "leave it out: a discovery tool has 10s",
	"fleets[].ejection.connect_failures":  "leave it out: a failed connection ejects at once, unless failures is 0",
	"fleets[].ejection.max":               "leave it out: it is 60 times base",
	"fleets[].ejection.timeout_least":     "leave it out: a timeout counts from 1s on",
	"fleets[].engine.buffer":              "leave it out: a client may leave 4MiB unread",
	"fleets[].engine.queue":               "leave it out: 100 messages of an engine may wait",
	"fleets[].grpc_service.headers_env":   "write the headers into a file, and name it in headers_file",
	"fleets[].grpc_service.max_message":   "leave it out: a message may have 4MiB",
	"fleets[].health.jitter":              "leave it out: probes are spread over a tenth of the interval",
	"fleets[].mcp_server.headers_env":     "write the headers into a file, and name it in headers_file",
	"fleets[].mcp_server.max_message":     "leave it out: a message may have 8MiB",
	"fleets[].queue.length":               "leave it out: 100 calls may wait; wait: 0s turns waiting off",
	"fleets[].retry.floor": "leave it out: 10 retries a second are permitted besides share; " +
		"share: 0 turns retries off",
	"idempotency.key_file":            secretFile,
	"idempotency.max_answer":          "leave it out: responses of up to 64KiB are stored",
	"idempotency.max_keys":            "leave it out: a tenant may have 10,000 keys",
	"identity.cache":                  "write cache.entries",
	"identity.max_stale":              "write cache.max_stale",
	"identity.ttl":                    "write cache.ttl",
	"issuers[].max_stale":             "leave it out: known keys are valid for 24h",
	"issuers[].refresh":               "leave it out: keys are requested every 5m",
	"operators.session.key_file":      secretFile,
	"operators.sign_in[].title":       "leave it out: the button has the name of the issuer",
	"overload.max_in_flight":          "leave it out: there may be a call for each 16KiB of memory",
	"policies.cache":                  "write cache.entries",
	"policies.max_stale":              "write cache.max_stale",
	"policies.ttl":                    "write cache.ttl",
	"redis.store_key_accept_unsigned": "write redis.accept_unsigned",
	"redis.store_key_file": oneSecret + ", so records that another key signed count as absent: set rules and " +
		"tenants again, and rotate API keys",
	"redis.wait_timeout":              "leave it out: wait_replicas waits for 1s",
	"registration.max_per_capability": "leave it out: it is a tenth of registration.max",
	"registration.min_ttl":            "leave it out: a lease lasts at least 1s",
	"replicas.reconcile":              "leave it out: it is five times heartbeat",
	"replicas.stale":                  "leave it out: it is 15 times heartbeat",
	"shields[].cache":                 "leave it out: 10,000 verdicts are cached until they expire",
	"traces.queue":                    "leave it out: 4096 spans may wait",
	"traces.service":                  "set OTEL_SERVICE_NAME in the environment",
	"traces.timeout":                  "leave it out: a request has 10s",
}

const (
	leaveLimits = "leave it out: it is a share of client_limits.connections"
	oneSecret   = "write secret_file at the top level: all keys are derived from it"
	secretFile  = oneSecret + "; one also signs records in Redis, see Migration in docs/run/redis.md"
)
