// Package redisstore is the shared store of replicas, and the only package that speaks Redis. It supports four
// deployments (embedded, one server, Sentinel, Cluster) and hides their differences.
//
//	redisstore.Open ──► Store ── client (for health) ──► health.go
//	                      │   ── client (for session) ─► pins.go …
//	                      │
//	                    breaker ── one goroutine probes whether Redis is back
//
// A feature is one file with one type that embeds client, made by a method of Store. The package that needs
// the feature owns the interface; internal/app connects the two.
//
//	// Pins stores the backend of each session.
//	type Pins struct{ client }
//
//	func (s *Store) Pins() *Pins { return &Pins{s.client(Session)} }
//
//	var pinScript = newScript("pins_pin") // lua/pins_pin.lua
//
//	// Pin returns the backend of the session, or makes it addr if there is none.
//	func (p *Pins) Pin(ctx context.Context, tenant, session, addr string, ttl time.Duration) (string, error) {
//		key := p.key("{TENANT:SESSION}:pin", tenant, session)
//		return p.run(ctx, pinScript, []string{key}, addr, ttl.Milliseconds()).Text()
//	}
//
// A single command goes through do, which supplies a context with its purpose and deadline:
//
//	err := p.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
//		return c.Del(ctx, p.key("{TENANT:SESSION}:pin", tenant, session)).Err()
//	})
//
// The guarantees and obligations of every feature:
//
//   - A command ends within Config.Timeout. After a timeout or a connection failure, all commands fail at once
//     with [ErrUnavailable] until a probe in the background succeeds. Then the functions of [Store.OnReconnect] are
//     called; Redis may have come back empty. On a Cluster this holds for each master and its keys (shards.go).
//   - A failed command may have been executed, on a Cluster even twice. Scripts must be idempotent. They are files in
//     lua/, where include/ has what they share, such as Redis' clock and the journal of changes.
//   - Redis may be full or a replica: then reads succeed and writes fail, without an ErrUnavailable.
//   - Keys are made by key, which escapes foreign text. Each kind of key has a row in keys.md, the table of keys, by
//     which a tenant is erased; `make generate` writes docs/run/keys.md and the rights of Redis users from it. The keys
//     of one script share one hash tag, so that they are on the same node of a Cluster.
//   - Times are Redis' own: TIME in a script, or PX. In the embedded Redis keys may expire up to a tenth of a
//     second early.
//   - Malformed values are skipped, and counted with malformed.
//   - subscribe loses messages whenever a connection breaks; it reports when to read again.
package redisstore
