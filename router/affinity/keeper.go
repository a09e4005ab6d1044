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

// Config bounds a Keeper. A zero field takes its default.
type Config struct {
	Sessions  int           // in memory; who was not used longest is forgotten first; default 100,000
	Artifacts int           // in memory; those of the tenant that has most are forgotten first; default 100,000
	Wait      time.Duration // the longest that a call waits for the store; default 100 ms
	Asking    int           // calls that wait for the store at once; others do without; default 256
	Every     time.Duration // between two looks at what the store has to be told; default 1 s
	Log       *slog.Logger  // default discard
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

// Keeper is what one gateway knows of sessions and artifacts.
type Keeper struct {
	cfg   Config
	store Store         // nil: there is only this gateway
	slots chan struct{} // one for each who asks the store

	asking sync.WaitGroup
	told   chan struct{} // capacity 1: holdings has something new

	mu        sync.Mutex                               // held for a few lookups at a time, never while the store is asked
	sessions  *fairshare.LRU[string, Session, *Pinned] // of each tenant's
	flights   map[Session]*flight
	due       []*Pinned                              // to be confirmed
	artifacts *fairshare.LRU[string, Artifact, held] // of each tenant's
	holdings  []Holding                              // to be remembered; of no tenant more than its share of claims
	claims    *fairshare.Pool
	mute      muting
	closed    bool

	recheck                                           atomic.Bool
	lost, lookups, timeouts, failures, local, dropped atomic.Int64
}

// New makes a Keeper. Without a store, nil, it works for itself alone.
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

// Run tells the store in the background what it has to know, until ctx ends. Nothing
// of the Keeper runs when it returns; calls that still come are answered from memory.
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
	Lost      int64 // calls that were told SESSION_LOST
	Lookups   int64 // questions to the store, of calls that waited
	Timeouts  int64 // of these, such that had no answer in time
	Failures  int64 // of these, such that failed otherwise
	Local     int64 // sessions that were placed without the store
	Dropped   int64 // artifacts that the store was not told of, as too many waited
}

// Stats returns them.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Stats{
		Sessions: k.sessions.Len(), Artifacts: k.artifacts.Len(), Lost: k.lost.Load(), Lookups: k.lookups.Load(),
		Timeouts: k.timeouts.Load(), Failures: k.failures.Load(), Local: k.local.Load(), Dropped: k.dropped.Load(),
	}
}
