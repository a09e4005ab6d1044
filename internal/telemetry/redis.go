package telemetry

// Redis holds figures of the shared store. The counters only grow.
type Redis struct {
	Commands  map[string]int64 // commands by purpose: a fixed set of labels
	Errors    int64            // commands that failed, or were not sent because Redis is unavailable
	Malformed int64            // values that could not be decoded
	// Unreplicated counts writes that too few replicas acknowledged in time.
	Unreplicated int64
	Rejected     map[string]int64 // records without a valid signature of a store key, by kind: a fixed set of labels
	Up           bool
}

// WatchRedis calls ask at every scrape. It may be called from any goroutine.
func (m *Metrics) WatchRedis(ask func() Redis) { m.redis.read.Store(&ask) }

func newRedis() *polled[Redis] {
	m := metrics{prefix: "capgate_redis_"}
	commands := m.add("commands_total", "Commands sent to Redis, by purpose.", "for")
	errors := m.add("errors_total", "Commands to Redis that failed, or were not sent because Redis is unavailable.")
	malformed := m.add("malformed_total", "Values in Redis that could not be decoded and were ignored.")
	unreplicated := m.add("unreplicated_total",
		"Redemptions of approvals and claims of idempotency keys that too few Redis replicas acknowledged in time.")
	rejected := m.add("rejected_total",
		"Records in Redis without a valid signature of store_key_file, which count as absent.", "kind")
	up := m.add("up", "1 while Redis responds, else 0. An embedded one always responds.")
	return &polled[Redis]{metrics: m, emit: func(t emitter, r Redis) {
		for purpose, n := range r.Commands {
			t.count(commands, n, purpose)
		}
		t.count(errors, r.Errors)
		t.count(malformed, r.Malformed)
		t.count(unreplicated, r.Unreplicated)
		for kind, n := range r.Rejected {
			t.count(rejected, n, kind)
		}
		t.flag(up, r.Up)
	}}
}
