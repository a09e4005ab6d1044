package redisstore

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/capgate/capgate/gateway/upstream/sessions"
)

// UpstreamSessions stores sessions of callers at backends. It is a sessions.Store.
type UpstreamSessions struct {
	client
	replica string // random name of its user
}

// UpstreamSessions returns the store of sessions at backends for one replica.
func (s *Store) UpstreamSessions() *UpstreamSessions {
	return &UpstreamSessions{s.client(Session), rand.Text()}
}

var _ sessions.Store = (*UpstreamSessions)(nil)

var enterSessionScript = newScript("upstream_sessions_enter")

// Enter implements sessions.Store.
func (u *UpstreamSessions) Enter(
	ctx context.Context, name sessions.Name, own sessions.Session, ttl time.Duration,
) (other []byte, use int64, err error) {
	key := u.nameKey(name)
	r := u.read(ctx, enterSessionScript, []string{key}, own.ID, own.Value, own.Uses, ttl.Milliseconds(),
		u.replica)
	value, found := r.found()
	if use = r.int(); r.int() != 0 {
		u.malformed(key)
	}
	if err = r.end(); err != nil || !found {
		return nil, 0, err
	}
	return []byte(value), use, nil
}

var endSessionScript = newScript("upstream_sessions_end")

// End implements sessions.Store.
func (u *UpstreamSessions) End(
	ctx context.Context, name sessions.Name, id string, idle time.Duration,
) (ended bool, err error) {
	r := u.read(ctx, endSessionScript, []string{u.nameKey(name)}, id, idle.Milliseconds(), u.replica)
	ended = r.int() == 1
	return ended, r.end()
}

func (u *UpstreamSessions) nameKey(n sessions.Name) string {
	return u.key("{TENANT:upstream:CAP:SUM}", n.Tenant, n.Capability, n.Sum)
}
