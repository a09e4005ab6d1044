package session

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Lifetime configures the sessions to come.
type Lifetime struct {
	// Time after which a person has to sign in again.
	TTL time.Duration `yaml:"ttl" min:"1m" max:"720h" default:"12h"`
}

// MaxTTL bounds the lifetime of a session, and so that of a revocation.
const MaxTTL = 30 * 24 * time.Hour

// round is the interval of requests for revocations, in case an event was missed.
const round = 500 * time.Millisecond

// Options are the options of a Manager. The zero value is usable.
type Options struct {
	Now func() time.Time // default time.Now
	Log *slog.Logger     // default none
	// Keys encrypt cookies. Default: of this process alone.
	Keys *sharedkey.Keys
}

// Manager issues, opens and ends sessions. It is safe for concurrent use.
type Manager struct {
	store   Store
	now     func() time.Time
	log     *slog.Logger
	keys    *sharedkey.Keys
	ttl     atomic.Int64
	revoked *revocations
	reading sync.Mutex          // held while revocations are read
	at      changefeed.Position // of the last revocation that was read
}

// New returns a Manager. The caller runs Run.
func New(store Store, o Options) *Manager {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Keys == nil {
		o.Keys = sharedkey.New(nil, o.Now).Keys("sessions")
	}
	m := &Manager{store: store, keys: o.Keys, now: o.Now, log: o.Log, revoked: newRevocations()}
	m.ttl.Store(int64(strictyaml.Defaults[Lifetime]().TTL))
	return m
}

// SetTTL sets the lifetime of sessions to come; 0: it stays.
func (m *Manager) SetTTL(ttl time.Duration) {
	if ttl > 0 {
		m.ttl.Store(int64(min(ttl, MaxTTL)))
	}
}

// sealer returns what encrypts cookies. It may wait for the store until ctx ends.
func (m *Manager) sealer(ctx context.Context) (*aead.Sealer, *call.Refusal) {
	keys, err := m.keys.Load(ctx)
	if err != nil {
		return nil, refusedAway
	}
	sealer, err := aead.New(keys)
	if err != nil {
		return nil, refusedAway
	}
	return sealer, nil
}

// Run learns of revocations until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	changefeed.Poll(ctx, "sessions", make(chan struct{}, 1), m.store.Watch, func(ctx context.Context) time.Duration {
		m.Read(ctx)
		return round
	})
}

// Read reads the revocations that are new. A store that has lost them gets the known ones back.
func (m *Manager) Read(ctx context.Context) {
	m.reading.Lock()
	defer m.reading.Unlock()
	at, all, err := m.store.Revoked(ctx, m.at)
	if err != nil {
		return // what is known stays in force
	}
	now := m.now()
	if lost := m.at.Epoch != "" && !at.Continues(m.at); lost {
		if err = m.store.Revoke(ctx, m.revoked.all(now)); err != nil {
			m.log.Warn("revoked sessions not restored in redis after a loss of its data", "error", err)
			return
		}
	}
	m.revoked.add(all, now)
	m.at = at
}

// Issue fills in the id, the times and the secret of a new session, and returns its cookie.
func (m *Manager) Issue(ctx context.Context, kind Kind, s *Session) (cookie string, refusal *call.Refusal) {
	by, refusal := m.sealer(ctx)
	if refusal != nil {
		return "", refusal
	}
	s.ID, s.CSRF = NewID(), NewID()
	s.Issued = m.now().UTC().Truncate(time.Millisecond)
	end := s.Issued.Add(time.Duration(m.ttl.Load()))
	if s.Expires.IsZero() || s.Expires.After(end) {
		s.Expires = end
	}
	cookie, err := seal(by, "session "+string(kind), s)
	if err != nil {
		return "", refusedTooLong
	}
	r := Record{ID: s.ID, Kind: kind, Name: s.Name(), User: s.User, Issuer: s.Issuer, Key: s.Key, KeyName: s.KeyName,
		Tenant: s.Tenant, Via: s.Via, Issued: s.Issued, Expires: s.Expires}
	if err = m.store.Add(ctx, r); err != nil { // only the list lacks it
		m.log.Warn("session not added to the list of sessions", "name", r.Name, "error", err)
	}
	return cookie, nil
}

// Open returns the session of a cookie, unless it has ended.
func (m *Manager) Open(ctx context.Context, kind Kind, cookie string) (*Session, *call.Refusal) {
	if cookie == "" || len(cookie) > MaxCookie {
		return nil, refusedSession
	}
	by, refusal := m.sealer(ctx)
	if refusal != nil {
		return nil, refusal
	}
	s := &Session{}
	if open(by, "session "+string(kind), cookie, s) != nil || s.ID == "" || s.CSRF == "" || !m.Valid(s) {
		return nil, refusedSession
	}
	return s, nil
}

// Valid reports whether a session has neither expired nor been revoked.
func (m *Manager) Valid(s *Session) bool { return m.now().Before(s.Expires) && !m.revoked.has(s) }

// Seal encrypts a value for a purpose besides sessions.
func (m *Manager) Seal(ctx context.Context, purpose string, v any) (string, *call.Refusal) {
	by, refusal := m.sealer(ctx)
	if refusal != nil {
		return "", refusal
	}
	text, err := seal(by, "purpose "+purpose, v)
	if err != nil {
		return "", refusedTooLong
	}
	return text, nil
}

// Unseal decrypts what Seal returned for the same purpose.
func (m *Manager) Unseal(ctx context.Context, purpose, text string, v any) error {
	by, refusal := m.sealer(ctx)
	if refusal != nil {
		return refusal
	}
	return open(by, "purpose "+purpose, text, v)
}

// End revokes one session: on this replica at once, on others within a second, unless the store is unavailable. until
// is the time at which the session expires; zero: unknown.
func (m *Manager) End(ctx context.Context, id string, until time.Time) *call.Refusal {
	if until.IsZero() {
		until = m.now().Add(MaxTTL)
	}
	return m.revoke(ctx, []Revocation{{Session: id, Until: until}})
}

// EndOwn revokes a session for the person or key of the session itself. Where the store has no room for more
// revocations of its owner, it revokes all sessions of the person or key that were issued until now: that takes room
// once.
func (m *Manager) EndOwn(ctx context.Context, s *Session) *call.Refusal {
	now := m.now()
	all := []Revocation{{Session: s.ID, Until: s.Expires, Owner: s.owner()}}
	err := m.store.Revoke(ctx, all)
	if errors.Is(err, ErrFull) {
		before := now.Truncate(time.Millisecond).Add(-time.Millisecond) // the next session may begin at once
		if s.Issued.After(before) {
			before = s.Issued
		}
		return m.revoke(ctx, []Revocation{{Name: s.Name(), Before: before, Until: now.Add(MaxTTL)}})
	}
	m.revoked.add(all, now)
	if err != nil {
		return refusedUnrevoked
	}
	return nil
}

// EndAll revokes all sessions of a person or key that were issued until now.
func (m *Manager) EndAll(ctx context.Context, name string) *call.Refusal {
	now := m.now()
	all := []Revocation{{Name: name, Before: now, Until: now.Add(MaxTTL)}}
	if listed, err := m.store.List(ctx); err == nil {
		for _, r := range listed { // the clock of the replica that issued it may be ahead
			if r.Name == name {
				all = append(all, Revocation{Session: r.ID, Until: now.Add(MaxTTL)})
			}
		}
	}
	return m.revoke(ctx, all)
}

func (m *Manager) revoke(ctx context.Context, all []Revocation) *call.Refusal {
	m.revoked.add(all, m.now())
	switch err := m.store.Revoke(ctx, all); {
	case errors.Is(err, ErrFull):
		return refusedFull
	case err != nil:
		return refusedUnrevoked
	}
	return nil
}

// List returns the sessions that were issued and have not ended.
func (m *Manager) List(ctx context.Context) ([]Record, *call.Refusal) {
	all, err := m.store.List(ctx)
	if err != nil {
		return nil, refusedAway
	}
	return all, nil
}

// SameSecret compares a secret in constant time.
func SameSecret(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

var (
	refusedAway = &call.Refusal{Kind: call.Unavailable, Reason: "SESSIONS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "sessions are not available at the moment: the gateway does not reach Redis"}
	refusedUnrevoked = &call.Refusal{Kind: call.Unavailable, Reason: "SESSIONS_UNAVAILABLE", RetryAfter: time.Second,
		Message: "the gateway does not reach Redis: the session has ended at this replica alone; try again later"}
	refusedFull = &call.Refusal{Kind: call.ResourceExhausted, Reason: "SESSIONS_UNAVAILABLE",
		Message: "too many sessions were revoked in a short time; replace secret_file to end all " +
			"sessions"}
	refusedSession = &call.Refusal{Kind: call.Unauthenticated, Reason: "SESSION_INVALID",
		Message: "the session has ended; sign in again"}
	refusedTooLong = &call.Refusal{Kind: call.InvalidArgument, Reason: "SIGN_IN_FAILED",
		Message: "the names that the issuer gives are too long for a cookie"}
)

// Refused returns the refusal of a session that has ended.
func Refused() *call.Refusal { return refusedSession }
