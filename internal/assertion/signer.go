package assertion

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/lib/signal"
)

const (
	// Lifetime is the time for which an assertion is valid. It is signed immediately before the request is sent.
	Lifetime = time.Minute

	refresh = 30 * time.Second // between two reads of the secret
	retry   = 2 * time.Second  // the same, until the first one has succeeded
)

// ErrNoKey means that the replicas' secret has not been read yet.
var ErrNoKey = errors.New("the key that signs assertions is not available yet")

// Sign returns an assertion of a caller for an audience.
type Sign func(audience string, c *Caller) (string, error)

// Signer signs assertions. It is safe for concurrent use.
type Signer struct {
	secret   *sharedkey.Keys
	now      func() time.Time
	settings atomic.Pointer[Settings]
	ring     atomic.Pointer[ring] // nil: the secret has not been read yet
	changed  chan struct{}        // see signal.Wake
}

// Settings are the parts of a configuration that concern assertions.
type Settings struct {
	Issuer string // value of iss
	Used   bool   // some fleet requires assertions; otherwise no keys are published
}

// ring holds the keys that derive from the secrets. The first one signs.
type ring struct {
	seeds  [][]byte
	signs  *key
	public []byte // JWK Set of all
}

// New returns a Signer whose keys derive from those of secret. If now is nil, the system's clock is used.
func New(secret *sharedkey.Keys, s Settings, now func() time.Time) *Signer {
	if now == nil {
		now = time.Now
	}
	of := &Signer{secret: secret, now: now, changed: make(chan struct{}, 1)}
	of.settings.Store(&s)
	return of
}

// Set changes the settings. A secret in memory is used at once, and otherwise Run reads it.
func (s *Signer) Set(to Settings) {
	s.settings.Store(&to)
	if seeds := s.secret.Cached(); to.Used && seeds != nil {
		s.use(seeds)
	}
	signal.Wake(s.changed)
}

// Run follows the secret until ctx ends.
func (s *Signer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s.Load(ctx)
		pause := refresh
		if s.ring.Load() == nil {
			pause = retry
		}
		signal.Wait(ctx, s.changed, pause)
	}
}

// Load reads the secret, if some fleet requires assertions. It may wait for the store until ctx ends. If that is
// unavailable, the last keys stay, and without any, Sign returns ErrNoKey.
func (s *Signer) Load(ctx context.Context) {
	if !s.settings.Load().Used {
		return
	}
	if seeds, err := s.secret.Load(ctx); err == nil {
		s.use(seeds)
	}
}

// use derives the keys, unless they are those in use.
func (s *Signer) use(seeds [][]byte) {
	if last := s.ring.Load(); last != nil && slices.EqualFunc(last.seeds, seeds, bytes.Equal) {
		return
	}
	all := make([]*key, len(seeds))
	for i, seed := range seeds {
		all[i] = newKey(seed)
	}
	s.ring.Store(&ring{seeds, all[0], setOf(all)})
}

// Ready reports whether there is a key.
func (s *Signer) Ready() bool { return s.ring.Load() != nil }

// Sign returns an assertion of a caller for an audience. Its error is ErrNoKey while there is no key.
func (s *Signer) Sign(audience string, c *Caller) (string, error) {
	keys := s.ring.Load()
	if keys == nil {
		return "", ErrNoKey
	}
	issued := s.now()
	k := claims{Issuer: s.settings.Load().Issuer, Audience: audience, Issued: issued.Unix(),
		Expires: issued.Add(Lifetime).Unix(), ID: rand.Text()}
	k.fill(c)
	payload, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	return keys.signs.sign(payload)
}

// Keys returns the JWK Set; nil while there is no key. used reports whether some fleet requires assertions.
func (s *Signer) Keys() (set []byte, used bool) {
	if keys := s.ring.Load(); keys != nil {
		set = keys.public
	}
	return set, s.settings.Load().Used
}
