package tenant

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/cache"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

// Store has tenants and API keys that all replicas share. Records that cannot be decoded count as absent.
// Methods must end with ctx.
type Store interface {
	changefeed.Feed[Change]
	// FindKey and FindTenant return nil if there is none.
	FindKey(ctx context.Context, id string) (*Key, error)
	FindTenant(ctx context.Context, id string) (*Record, error)
}

// Change is a change of a tenant or of a key.
type Change struct{ Tenant, Key string }

// Options are the options of a Stored. The zero value is usable.
type Options struct {
	// keys kept in memory, and as many tenants; default 100,000. A tenth of that is kept of negative entries
	Entries  int
	TTL      time.Duration // time after which an entry is requested again, plus or minus a fifth; default 1 min
	MaxStale time.Duration // how long entries stay valid while the store is unavailable; default 10 min
	Unknown  int           // requests a second for unknown ids; default 5,000
	Log      *slog.Logger  // default: no log
}

func (o *Options) setDefaults() {
	for n, standard := range map[*int]int{&o.Entries: 100_000, &o.Unknown: 5000} {
		if *n == 0 {
			*n = standard
		}
	}
	for d, standard := range map[*time.Duration]time.Duration{&o.TTL: time.Minute, &o.MaxStale: 10 * time.Minute} {
		if *d == 0 {
			*d = standard
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// patience is the timeout of a request to the store.
const patience = time.Second

// Stored caches the tenants and API keys of a store for one replica.
type Stored struct {
	store     Store
	freshness *cache.Freshness
	keys      readCache[cachedKey]
	tenants   readCache[Settings]
	maxStale  time.Duration
	directory *Directory
	pepper    atomic.Pointer[[]byte]
	standard  atomic.Pointer[Limits]
	log       *slog.Logger
	warned    atomic.Bool // the missing pepper was logged
}

// NewStored returns a Stored. The caller runs Watch.
func NewStored(store Store, o Options) *Stored {
	o.setDefaults()
	s := &Stored{store: store, log: o.Log, maxStale: o.MaxStale, freshness: cache.NewFreshness(o.TTL, o.MaxStale, nil)}
	s.pepper.Store(new([]byte))
	s.standard.Store(new(Limits))
	s.directory = NewDirectory(s)
	strangers := tokenbucket.New(o.Unknown, time.Second/time.Duration(o.Unknown))
	prepare(&s.keys, s.freshness, strangers, o.Entries)
	prepare(&s.tenants, s.freshness, strangers, o.Entries)
	s.keys.find, s.keys.owner = s.findKey, func(k *cachedKey) string { return k.Tenant + "/" + k.UID }
	s.tenants.find, s.tenants.owner = s.findTenant, func(*Settings) string { return "" } // each tenant has one entry
	return s
}

func prepare[V any](l *readCache[V], f *cache.Freshness, strangers *tokenbucket.Bucket, entries int) {
	l.freshness, l.bucket = f, strangers
	l.present, l.absent = cache.New[found[V]](entries), cache.New[found[V]](max(entries/10, 1000))
}

func (s *Stored) findKey(ctx context.Context, id string) (*cachedKey, error) {
	k, err := s.store.FindKey(ctx, id)
	if k == nil {
		return nil, err
	}
	if k.Hash.Peppered() && len(*s.pepper.Load()) == 0 && !s.warned.Swap(true) {
		s.log.Warn("API keys in Redis have hashes with a pepper, but no pepper_file is configured: they are rejected",
			"tenant", k.Tenant, "key", id)
	}
	return &cachedKey{Key: *k, stored: true}, nil
}

func (s *Stored) findTenant(ctx context.Context, id string) (*Settings, error) {
	standard := s.standard.Load()
	r, err := s.store.FindTenant(ctx, id)
	if r == nil {
		return nil, err
	}
	return r.Settings(standard), nil
}

// Directory returns the directory with the tenants of the store. The caller adds those of the configuration.
func (s *Stored) Directory() *Directory { return s.directory }

// SetPepper sets the pepper of the keys' hashes; empty: none.
func (s *Stored) SetPepper(pepper []byte) {
	if bytes.Equal(pepper, *s.pepper.Load()) {
		return
	}
	s.pepper.Store(&pepper)
	s.warned.Store(false)
	s.keys.present.Clear() // removes also the digests under the previous pepper
}

// SetLimits sets the limits of tenants without limits of their own.
func (s *Stored) SetLimits(standard Limits) {
	if reflect.DeepEqual(standard, *s.standard.Load()) {
		return
	}
	s.standard.Store(&standard)
	s.tenants.present.Clear()
}

// Lookup implements Authenticator.
func (s *Stored) Lookup(c Credentials) (identity Identity, known bool, refusal *call.Refusal) {
	id, secret, ok := ParseCredential(c.Credential)
	if !ok {
		return Identity{}, true, refusedCredential
	}
	k, known := s.keys.lookup(id)
	switch {
	case k == nil && !known && IsKeyID(id):
		return Identity{}, false, nil
	case k == nil:
		return Identity{}, true, refusedCredential
	}
	if !k.matches(&c, secret, *s.pepper.Load()) {
		return Identity{}, true, refusedCredential
	}
	of, known := s.directory.Lookup(k.Tenant)
	if !known {
		return Identity{}, false, nil
	}
	identity, refusal = k.authenticate(c, of, time.Now)
	return identity, true, refusal
}

// Authenticate implements Authenticator.
func (s *Stored) Authenticate(ctx context.Context, c Credentials) (Identity, *call.Refusal) {
	id, secret, ok := ParseCredential(c.Credential)
	if !ok {
		return Identity{}, refusedCredential
	}
	k, refusal := s.keys.fetch(ctx, id)
	switch {
	case refusal != nil:
		return Identity{}, refusal
	case k == nil || !k.matches(&c, secret, *s.pepper.Load()):
		return Identity{}, refusedCredential
	}
	of, refusal := s.directory.Settings(ctx, k.Tenant)
	if refusal != nil {
		return Identity{}, refusal
	}
	return k.authenticate(c, of, time.Now)
}

// Watch keeps the cache consistent with the store until ctx ends.
func (s *Stored) Watch(ctx context.Context) {
	changefeed.Run(ctx, s.store, feedCache{s.freshness, s},
		changefeed.Options{Patience: patience, MaxStale: s.maxStale})
}

// Changed invalidates entries before the store's feed reports the change.
func (s *Stored) Changed(c Change) {
	if c.Key != "" {
		s.keys.forget(c.Key)
	}
	if c.Tenant != "" {
		s.tenants.forget(c.Tenant)
	}
}

// StoredStats are figures of the cache. The counters only grow.
type StoredStats struct {
	Entries  int           // entries in memory: keys, tenants and negative entries
	Requests int64         // requests to the store
	Age      time.Duration // time since the store last confirmed that no change is missing
	Lost     bool          // the store has lost data; see changefeed.Cache
	Read     bool          // the store was read since the start
}

// Stats may be called at any time.
func (s *Stored) Stats() StoredStats {
	return StoredStats{
		s.keys.len() + s.tenants.len(), s.keys.requests.Load() + s.tenants.requests.Load(),
		s.freshness.Age(), s.freshness.Lost(), s.HasRead(),
	}
}

// HasRead reports whether the store was read since the start.
func (s *Stored) HasRead() bool { return s.freshness.LastSync() > 0 }

// feedCache is a Stored as a changefeed.Cache.
type feedCache struct {
	*cache.Freshness
	of *Stored
}

func (c feedCache) Invalidate(change Change) { c.of.Changed(change) }

func (c feedCache) InvalidateAll() {
	c.of.keys.invalidate()
	c.of.tenants.invalidate()
}

// Refusals of callers that cannot be authenticated at the moment.
var (
	refusedUnavailable = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_UNAVAILABLE", RetryAfter: time.Second,
		Message: "the caller cannot be authenticated at the moment"}
	refusedTooMany = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_OVERLOADED", RetryAfter: time.Second,
		Message: "too many unknown credentials arrive; try again later"}
)
