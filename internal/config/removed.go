package config

// removed says what to write in place of fields that earlier versions had.
var removed = map[string]string{
	"approvals.key_file":           secretFile,
	"approvals.notices[].attempts": "leave it out: an event is a dead letter after 10 requests",
	"approvals.notices[].timeout":  "leave it out: a request has 10s",
	"approvals.webhook": "write approvals.notices: [{name: webhook, …}] with its fields, but " +
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
	"fleets[].discovery.timeout":          "leave it out: a discovery tool has 10s",
	"fleets[].ejection.timeout_least":     "leave it out: a timeout counts from 1s on",
	"fleets[].engine.buffer":              "leave it out: a client may leave 4MiB unread",
	"fleets[].engine.queue":               "leave it out: 100 messages of an engine may wait",
	"fleets[].health.jitter":              "leave it out: probes are spread over a tenth of the interval",
	"fleets[].retry.floor": "leave it out: 10 retries a second are permitted besides share; " +
		"share: 0 turns retries off",
	"idempotency.max_answer":          "leave it out: responses of up to 64KiB are stored",
	"idempotency.key_file":            secretFile,
	"operators.session.key_file":      secretFile,
	"redis.store_key_accept_unsigned": "write redis.accept_unsigned",
	"redis.store_key_file":            secretFile,
	"redis.wait_timeout":              "leave it out: wait_replicas waits for 1s",
	"registration.min_ttl":            "leave it out: a lease lasts at least 1s",
	"replicas.reconcile":              "leave it out: it is five times heartbeat",
	"traces.queue":                    "leave it out: 4096 spans may wait",
	"traces.service":                  "set OTEL_SERVICE_NAME in the environment",
	"traces.timeout":                  "leave it out: a request has 10s",
}

const (
	leaveLimits = "leave it out: it is a share of client_limits.connections"
	secretFile  = "write secret_file at the top level: all keys are derived from it"
)
