package affinity

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// Config bounds a Resolver. A zero field takes its default.
type Config struct {
	Sessions  int           // in memory; the least recently used is dropped first; default 100,000
	Artifacts int           // in memory; the tenant that has most loses its own first; default 100,000
	Wait      time.Duration // the longest wait of a call for the store; default 100 ms
	Asking    int           // concurrent queries to the store; further calls do without; default 256
	Every     time.Duration // interval of the background work; default 1 s
	Log       *slog.Logger  // default: discarded
}

func (c Config) withDefaults() Config {
	if c.Sessions <= 0 {
		c.Sessions = 100_000
	}
	if c.Artifacts <= 0 {
		c.Artifacts = 100_000
	}
	if c.Wait <= 0 {
		c.Wait = 100 * time.Millisecond
	}
	if c.Asking <= 0 {
		c.Asking = 256
	}
	if c.Every <= 0 {
		c.Every = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Resolver is one gateway's knowledge of sessions and artifacts.
type Resolver struct {
	cfg     Config
	store   Store         // nil: there is no other gateway
	permits chan struct{} // permits of queries to the store

	inFlight     sync.WaitGroup
	pendingReady chan struct{} // capacity 1: holdings has a new element

	mu        sync.Mutex                               // held for a few lookups at a time, never during a query
	sessions  *fairshare.LRU[string, Session, *Pinned] // shared fairly by tenants
	flights   map[Session]*flight
	renewals  []*Pinned                                    // to be renewed
	artifacts *fairshare.LRU[string, Artifact, cacheEntry] // shared fairly by tenants
	// to be stored; each tenant is bounded by its share of claims
	pending      []Location
	pendingShare *fairshare.Pool
	breaker      breaker
	closed       bool

	recheck                                           atomic.Bool
	lost, lookups, timeouts, failures, local, dropped atomic.Int64
}

// New returns a Resolver. Without a store it keeps sessions in memory only.
func New(cfg Config, store Store) *Resolver {
	cfg = cfg.withDefaults()
	r := &Resolver{
		cfg: cfg, store: store, permits: make(chan struct{}, cfg.Asking),
		pendingReady: make(chan struct{}, 1), flights: map[Session]*flight{},
		sessions:     fairshare.NewLRU[string, Session, *Pinned](cfg.Sessions, nil),
		artifacts:    fairshare.NewLRU[string, Artifact, cacheEntry](cfg.Artifacts, nil),
		pendingShare: fairshare.New("artifact_claims", maxPending),
	}
	return r
}

// Run updates the store in the background until ctx ends. No goroutine of the Resolver is left when
// it returns; later calls are answered from memory.
func (r *Resolver) Run(ctx context.Context) {
	var work sync.WaitGroup
	if r.store != nil {
		work.Go(recovery.Loop(ctx, "affinity", func() { r.storeLoop(ctx) }))
		work.Go(func() { changefeed.Poll(ctx, "affinity", nil, r.watch, r.renew) })
	}
	<-ctx.Done()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	work.Wait()
	r.inFlight.Wait()
}

// Stats are a Keeper's counters at one moment.
type Stats struct {
	Sessions  int   // in memory
	Artifacts int   // in memory
	Lost      int64 // calls that got SESSION_LOST
	Lookups   int64 // queries to the store
	Timeouts  int64 // of these, without an answer in time
	Failures  int64 // of these, with another error
	Local     int64 // sessions that were pinned without the store
	Dropped   int64 // artifacts that were not stored, as too many waited
}

// Stats returns the current counters.
func (r *Resolver) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{
		Sessions: r.sessions.Len(), Artifacts: r.artifacts.Len(), Lost: r.lost.Load(), Lookups: r.lookups.Load(),
		Timeouts: r.timeouts.Load(), Failures: r.failures.Load(), Local: r.local.Load(), Dropped: r.dropped.Load(),
	}
}
