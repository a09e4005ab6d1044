package affinity

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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

// Keeper is one gateway's knowledge of sessions and artifacts.
type Keeper struct {
	cfg   Config
	store Store         // nil: there is no other gateway
	slots chan struct{} // permits of queries to the store

	asking sync.WaitGroup
	told   chan struct{} // capacity 1: holdings has a new element

	mu        sync.Mutex                               // held for a few lookups at a time, never during a query
	sessions  *fairshare.LRU[string, Session, *Pinned] // shared fairly by tenants
	flights   map[Session]*flight
	due       []*Pinned                              // to be renewed
	artifacts *fairshare.LRU[string, Artifact, held] // shared fairly by tenants
	holdings  []Holding                              // to be stored; each tenant is bounded by its share of claims
	claims    *fairshare.Pool
	mute      muting
	closed    bool

	recheck                                           atomic.Bool
	lost, lookups, timeouts, failures, local, dropped atomic.Int64
}

// New returns a Resolver. Without a store it keeps sessions in memory only.
func New(cfg Config, store Store) *Keeper {
	cfg = cfg.withDefaults()
	k := &Keeper{
		cfg: cfg, store: store, slots: make(chan struct{}, cfg.Asking),
		told: make(chan struct{}, 1), flights: map[Session]*flight{},
		sessions:  fairshare.NewLRU[string, Session, *Pinned](cfg.Sessions, nil),
		artifacts: fairshare.NewLRU[string, Artifact, held](cfg.Artifacts, nil), claims: fairshare.New("artifact_claims", maxHoldings),
	}
	return k
}

// Run updates the store in the background until ctx ends. No goroutine of the Resolver is left when
// it returns; later calls are answered from memory.
func (k *Keeper) Run(ctx context.Context) {
	var work sync.WaitGroup
	if k.store != nil {
		work.Go(recovery.Loop(ctx, "affinity", func() { k.confirmDue(ctx) }))
		work.Go(recovery.Loop(ctx, "affinity", func() { k.rememberTold(ctx) }))
		work.Go(recovery.Loop(ctx, "affinity feed", func() { k.store.Follow(ctx, k.moved, k.missed) }))
	}
	<-ctx.Done()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	work.Wait()
	k.asking.Wait()
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
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Stats{
		Sessions: k.sessions.Len(), Artifacts: k.artifacts.Len(), Lost: k.lost.Load(), Lookups: k.lookups.Load(),
		Timeouts: k.timeouts.Load(), Failures: k.failures.Load(), Local: k.local.Load(), Dropped: k.dropped.Load(),
	}
}
