package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// OpenBeside opens a Store of the embedded Redis of another.
func OpenBeside(s *Store, cfg Config) (*Store, error) { return open(cfg, s.server) }

// Probe is a feature for tests of the client.
type Probe struct{ client }

// Probe returns a feature with the purpose Session.
func (s *Store) Probe() *Probe { return &Probe{s.client(Session)} }

// Key names a key that only tests use.
func (p *Probe) Key(words ...string) string { return p.KeyOf("probe", words...) }

// KeyOf names a key of a feature whose tag is one word.
func (p *Probe) KeyOf(feature string, rest ...string) string {
	name := p.key("{FEATURE}", feature)
	if len(rest) > 0 {
		name += ":" + joinWords(rest)
	}
	return name
}

// Channel names a channel.
func (p *Probe) Channel(words ...string) string { return p.channel(joinWords(words)) }

// Do sends commands.
func (p *Probe) Do(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	return p.do(ctx, f)
}

// Run runs a script.
func (p *Probe) Run(ctx context.Context, lua string, keys []string, args ...any) *redis.Cmd {
	return p.run(ctx, script{redis.NewScript(lua)}, keys, args...)
}

// Subscribe subscribes.
func (p *Probe) Subscribe(ctx context.Context, channel string, onMessage func(string), onConnect func()) {
	p.subscribe(ctx, channel, onMessage, onConnect)
}

// Publish publishes.
func (p *Probe) Publish(ctx context.Context, channel, message string) error {
	return p.publish(ctx, channel, message)
}

// Set sets a key.
func (p *Probe) Set(ctx context.Context, key, value string) error {
	return p.do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.Set(ctx, key, value, 0).Err() })
}

// Get gets a key.
func (p *Probe) Get(ctx context.Context, key string) (value string, err error) {
	err = p.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		value, err = r.Get(ctx, key).Result()
		return err
	})
	return value, err
}

// Malformed returns the number of malformed records.
func (p *Probe) Malformed(key string) { p.malformed(key) }

// Keys are the names of the registrations' keys: leases, ends, ended, state, manifests.
func (r *Registrations) Keys() []string { return r.scriptKeys() }

// Do sends commands.
func (r *Registrations) Do(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	return r.do(ctx, f)
}

// Wait returns the number of replicas that have all writes.
func (p *Probe) Wait(ctx context.Context, replicas int) (int64, error) {
	return p.store.redis.Do(ctx, "WAIT", replicas, 0).Int64()
}

// ArtifactOwnerKey is the key of an artifact's owner.
func ArtifactOwnerKey(s *Sessions, a affinity.Artifact) string { return s.artifactOwnerKey(a) }

// UpstreamSessionKey returns the key of a session at a backend.
func UpstreamSessionKey(u *UpstreamSessions, n sessions.Name) string { return u.nameKey(n) }

// PinKey is the key of a session's pin.
func PinKey(s *Sessions, n affinity.Session) string { return s.pinKey(n) }

// ArtifactKey is the key of an artifact's location.
func ArtifactKey(s *Sessions, a affinity.Artifact) string { return s.artifactKey(a) }

// SetLifetime sets the lifetime of reports.
func (p *PermitStore) SetLifetime(d time.Duration) { p.ttl, p.turn = d, d }

// Key is the key of the permits at a backend.
func (p *PermitStore) Key(capability, addr string) string {
	return p.keysOf(capability, &router.Demand{Addr: addr})[0]
}

// Key is the key of a tenant's rules.
func (p *Policies) Key(tenant string) string { return p.ruleKey("{TENANT:policy}:rules", tenant) }

// RecordKey is the key of an approval.
func (a *ApprovalStore) RecordKey(tenant, id string) string {
	return a.recordKey(tenant, id)
}

// IndexKey is the key of the index of a tenant's approvals, OpenKey that of the open ones: older versions have no other
// sets.
func (a *ApprovalStore) IndexKey(tenant string) string {
	return a.key("{TENANT:approvals}:index", tenant)
}

// OpenKey is described at IndexKey.
func (a *ApprovalStore) OpenKey(tenant string) string {
	return a.key("{TENANT:approvals}:open", tenant)
}

// SessionKey is the key of an answer for a session.
func (a *ApprovalStore) SessionKey(tenant, sum string) string {
	return a.sessionKey(tenant, sum)
}

// Do sends commands.
func (a *ApprovalStore) Do(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	return a.do(ctx, f)
}

// Indexed is the number of approvals in the index; -1 after an error.
func (a *ApprovalStore) Indexed(ctx context.Context, tenant string) (n int64) {
	err := a.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		n, err = r.ZCard(ctx, a.key("{TENANT:approvals}:index", tenant)).Result()
		return err
	})
	if err != nil {
		return -1
	}
	return n
}

// Keys returns the keys that match a pattern, on all nodes.
func (a *ApprovalStore) Keys(ctx context.Context, pattern string) (keys []string, err error) {
	var mu sync.Mutex
	get := func(ctx context.Context, r redis.Cmdable) error {
		some, err := r.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, some...)
		return err
	}
	if cluster, ok := a.store.redis.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return get(ctx, c) })
	} else {
		err = a.do(ctx, get)
	}
	return keys, err
}

// SetAhead sets the offset of the clock of limits.
func (l *TenantLimits) SetAhead(d time.Duration) { l.ahead = d }

// SetRoom sets the number of values with budgets of their own.
func SetRoom(l *TenantLimits, n int) { l.room = n }

// ParseStored parses fields of a key and of a tenant.
func ParseStored(fields map[string]string) (keyOK, tenantOK bool) {
	k, keyOK := parseKey("id", fields)
	r, tenantOK := parseTenant("id", fields)
	return keyOK && k != nil, tenantOK && r != nil
}

// RecordKey is the key of the record of an idempotency key.
func (i *IdempotencyStore) RecordKey(c *idempotency.Claim) string { return i.keysOf(c)[0] }

// Do sends commands.
func (i *IdempotencyStore) Do(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	return i.do(ctx, f)
}

// Keys returns the keys of an engine's turns: state, held, line, alive, tenants, served, agent.
func (s *EngineTurns) Keys(engine string) []string {
	return append(s.turnKeys(engine), s.agentKeys(&turns.LeaseRequest{Engine: engine})...)
}

// Do sends commands.
func (s *EngineTurns) Do(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	return s.do(ctx, f)
}

// OwnerKey is the key of the owner of an engine's session.
func (e *EngineSessions) OwnerKey(fleet, session string) string { return e.ownerKey(fleet, session) }

// Do sends commands.
func (e *EngineSessions) Do(ctx context.Context, f func(context.Context, redis.Cmdable) error) error {
	return e.do(ctx, f)
}

// SetClock sets the clock of the embedded Redis.
func SetClock(s *Store, t time.Time) { s.server.SetTime(t) }

// ReadReply reads an integer, a text and the fields of a hash from a reply of a script, and all values must be read.
func ReadReply(v any, err error) (n int64, text string, fields map[string]string, end error) {
	c := redis.NewCmd(context.Background())
	c.SetVal(v)
	c.SetErr(err)
	r := replyOf(c)
	return r.int(), r.text(), r.fields(), r.end()
}

// SetLetter replaces the text of a dead letter.
func SetLetter(ctx context.Context, w *Webhooks, id, text string) error {
	return w.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.HSet(ctx, w.scriptKeys()[5], id, text).Err()
	})
}

// Erase deletes the toolsets of a tenant.
func (s *Stored) Erase(ctx context.Context, tenant string) error { return s.erase(ctx, tenant) }

// StoredKinds lists the kinds of stored objects.
func StoredKinds() []stored.Kind { return storedKinds }

// LoginKey returns the key of the login of a fleet.
func LoginKey(l *Logins, fleet string) string { return l.loginKeys(fleet)[0] }
