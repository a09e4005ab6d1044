package mcp

import (
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// sessionCost is the gateway's memory for a caller's session at a server, in bytes.
const sessionCost = 18 << 10

var refusedSession = &call.Refusal{Kind: call.ResourceExhausted, Reason: "SESSIONS_FULL",
	Message: "the sessions and subscriptions of this tenant or user at MCP servers reach their limit: use fewer, or " +
		"wait until unused ones have ended"}

// charge reserves the place and the memory of a user's new session; if necessary, unused sessions at this server end.
// nil means that the session is not charged. The caller must hold mu.
func (v *server) charge(key sessionKey, by string) (*fairshare.Account, error) {
	if key.isShared() {
		return nil, nil
	}
	of := user{key.tenant, by}
	if !v.makeRoom(of) {
		return nil, status.Error(refusedSession, call.NotSent)
	}
	account := v.all.Room.Of(key.tenant)
	if account == nil {
		return nil, nil
	}
	for !account.Reserve(sessionCost) {
		if !v.removeOldest(of, v.users[of]+1) { // a user loses none to one that has more
			return nil, status.Error(refusedSession, call.NotSent)
		}
	}
	return account, nil
}

// free releases the memory of an ended session.
func (s *session) free() {
	if s.held != nil {
		s.held.Release(sessionCost)
	}
}

// makeRoom ends an unused session for a new one of a user: one of its tenant if that has reached its share, or of the
// largest one if there are too many in total. It reports whether there is room. The caller must hold mu.
func (v *server) makeRoom(of user) bool {
	switch {
	case v.tenants[of.tenant] >= maxTenantSessions:
	case len(v.sessions) >= maxSessions:
		if tenant := v.largest(of.tenant); tenant != of.tenant {
			of = user{tenant: tenant}
		}
	default:
		return true
	}
	return v.removeOldest(of, 1)
}

// largest returns the tenant with the most sessions of those that have an unused one, when a tenant opens another
// session. It returns that tenant if all sessions are in use. The caller must hold mu.
func (v *server) largest(own string) string {
	of, most := own, 0
	for key, s := range v.sessions {
		n := v.tenants[key.tenant]
		if key.tenant == own {
			n++
		}
		if s.calls == 0 && !key.isShared() && n > most {
			of, most = key.tenant, n
		}
	}
	return of
}

// removeOldest ends a session for a new one of a user: the least recently used one of the user of the same tenant with
// the most, which with the new one are at least most. It reports whether one has ended. The caller must hold mu.
func (v *server) removeOldest(of user, most int) bool {
	var oldest sessionKey
	var since *session
	for key, s := range v.sessions {
		if key.tenant != of.tenant || s.calls > 0 || key.isShared() {
			continue
		}
		n := v.users[user{key.tenant, s.user}]
		if s.user == of.name {
			n++
		}
		if n > most || n == most && (since == nil || s.used.Before(since.used)) {
			oldest, since, most = key, s, n
		}
	}
	if since != nil {
		v.remove(oldest, since, v.recent())
	}
	return since != nil
}

// charged reserves memory of a tenant. release must be called once.
func (v *server) charged(tenant string, n int64) (release func(), ok bool) {
	account := v.all.Room.Of(tenant)
	if account == nil {
		return func() {}, true
	}
	return func() { account.Release(n) }, account.Reserve(n)
}

// chargedStream is charged for the stream of a user's subscription.
func (v *server) chargedStream(of user) (release func(), ok bool) {
	free, ok := v.charged(of.tenant, streamCost)
	if !ok {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	leave, ok := v.hold(of)
	if !ok {
		free()
		return nil, false
	}
	return func() {
		free()
		v.mu.Lock()
		defer v.mu.Unlock()
		leave()
	}, true
}

// hold counts a stream or a session that subscriptions of a user keep. A tenant has at most maxTenantSessions of them,
// and a user of it at most four times as many as are free. The caller must hold mu, also to release it.
func (v *server) hold(of user) (release func(), ok bool) {
	all := v.follows[of.tenant]
	if all == nil {
		all = fairshare.New("subscriptions", maxTenantSessions)
		v.follows[of.tenant] = all
	}
	own := all.Of(of.name)
	if !own.Reserve(1) {
		return nil, false
	}
	return func() {
		if own.Release(1); all.Used() == 0 {
			delete(v.follows, of.tenant)
		}
	}, true
}

// chargedFollow is charged for a subscription in a session, which it keeps.
func (v *server) chargedFollow(s *session, of user) (release func(), ok bool) {
	free, ok := v.charged(of.tenant, followCost)
	if !ok {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.follows == 0 {
		if s.unheld, ok = v.hold(of); !ok {
			free()
			return nil, false
		}
	}
	s.follows++
	return func() {
		free()
		v.mu.Lock()
		defer v.mu.Unlock()
		if s.follows--; s.follows == 0 {
			s.unheld()
		}
	}, true
}
