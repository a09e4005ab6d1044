package telemetry

// Redis is what is to be told of the store that replicas share when somebody scrapes. The
// counters only grow.
type Redis struct {
	Commands  map[string]int64 // sent, by what they were for: a fixed set of words
	Errors    int64            // commands that failed, or were not sent as Redis is away
	Malformed int64            // values that could not be understood
	// Unreplicated are writes that too few replicas had in time.
	Unreplicated int64
	Rejected     map[string]int64 // records that no store key has signed, by kind: a fixed set of words
	Up           bool
}

// WatchRedis lets every scrape report what ask answers. It may be called from any goroutine.
func (m *Metrics) WatchRedis(ask func() Redis) { m.redis.read.Store(&ask) }

func newRedis() *polled[Redis] {
	m := metrics{prefix: "capgate_redis_"}
	commands := m.add("commands_total", "Commands sent to Redis, by what they were for.", "for")
	errors := m.add("errors_total", "Commands to Redis that failed, or were not sent as Redis is away.")
	malformed := m.add("malformed_total", "Values in Redis that could not be understood and were passed over.")
	unreplicated := m.add("unreplicated_total",
		"Uses of approvals and claims of idempotency keys that were refused as too few replicas of Redis had them in time.")
	rejected := m.add("rejected_total",
		"Records in Redis that no key of store_key_file has signed, and that count as absent.", "kind")
	up := m.add("up", "1 if Redis answers, 0 while it is away. An embedded one always answers.")
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
