// Package redisstore is what replicas share: the only package that speaks Redis. It
// knows four kinds (embedded, one server, Sentinel, Cluster) and shows no difference.
//
//	redisstore.Open ──► Store ── client (for health) ──► health.go
//	                      │   ── client (for session) ─► pins.go …
//	                      │
//	                    breaker ── one goroutine asks whether Redis is back
//
// A feature is one file with one type that embeds client, made by a method of Store. The
// package that needs the feature owns the interface; cmd/capgate joins the two.
//
//	// Pins says which backend has a session.
//	type Pins struct{ client }
//
//	func (s *Store) Pins() *Pins { return &Pins{s.client(Session)} }
//
//	var pinScript = newScript(`
//		if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return ARGV[1] end
//		return redis.call('GET', KEYS[1])`)
//
//	// Pin returns the backend that has the session, which is addr if none had it.
//	func (p *Pins) Pin(ctx context.Context, tenant, session, addr string, ttl time.Duration) (string, error) {
//		key := p.key(tag{tenant, session}, "pin")
//		return p.run(ctx, pinScript, []string{key}, addr, ttl.Milliseconds()).Text()
//	}
//
// A single command goes through do, which hands out a context that carries what it is
// for and when it must end:
//
//	err := p.do(ctx, func(ctx context.Context, c redis.Cmdable) error {
//		return c.Del(ctx, p.key(tag{tenant, session}, "pin")).Err()
//	})
//
// What every feature may rely on, and must see to:
//
//   - A command ends within Config.Timeout. After one that did not, or that found no Redis,
//     all fail at once with [ErrAway] until Redis has answered a question in the background.
//     [Store.OnReturn] tells then; Redis may have come back empty.
//   - A command that fails may have been carried out, and on a Cluster be carried out twice.
//     Scripts must allow for that.
//   - Redis may be full or a replica: then reads succeed and writes fail, without an ErrAway.
//   - Keys are made by key, which escapes what callers chose, and are listed in keys.go. The
//     keys of one script share one tag, so that they are on the same node of a Cluster.
//   - Times are Redis' own: TIME in a script, or PX. The embedded one lets keys expire up to
//     a tenth of a second early.
//   - What cannot be understood is passed over, and counted with malformed.
//   - subscribe loses messages whenever a connection breaks; it says when to read again.
package redisstore
