package token

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/tenant"
)

// source has the keys of one issuer. One goroutine fetches them, and nobody else.
//
//	timer, or who shows an unknown key ──► next ──► current ──► fetch ──► set
type source struct {
	name     string
	settings Source
	fetcher  *fetcher
	now      func() time.Time
	log      *slog.Logger
	all      *tenant.TokenBucket
	own      *tenant.TokenBucket
	stop     context.CancelFunc // of run; nil: it has not begun

	set  atomic.Pointer[keySet] // nil: never fetched
	wake chan struct{}
	up   atomic.Bool

	fetched, failed, limited atomic.Int64

	mu            sync.Mutex
	next, current *round // nil: none
	ended         bool
}

// round is one fetch, for which any number may wait.
type round struct{ done chan struct{} }

func newRound() *round { return &round{done: make(chan struct{})} }

// Fetches for keys that are unknown, of one issuer.
const (
	fetchBurst = 3
	fetchEvery = 10 * time.Second
)

func newSource(i *Issuer, o *Options, all *tenant.TokenBucket) *source {
	return &source{
		name: i.Name, settings: i.Source, fetcher: newFetcher(i), now: o.Now, log: o.Log.With("issuer", i.Name),
		all: all, own: tenant.NewTokenBucket(fetchBurst, fetchEvery), wake: make(chan struct{}, 1), next: newRound(),
	}
}

// Tries to reach an issuer that does not answer.
const (
	minPause = time.Second
	maxPause = 30 * time.Second
)

// run fetches until ctx ends.
func (s *source) run(ctx context.Context) {
	defer s.end()
	pause := minPause
	for {
		wait := s.settings.Refresh
		if s.refreshOnce(ctx) {
			pause = minPause
		} else {
			wait = min(pause, wait)
			pause = min(2*pause, maxPause)
		}
		timer := time.NewTimer(jitter(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.wake:
			timer.Stop()
		}
	}
}

// jitter spreads what many replicas do.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// refreshOnce fetches once, and tells whether that went well.
func (s *source) refreshOnce(ctx context.Context) bool {
	s.mu.Lock()
	r := s.next
	if r == nil {
		r = newRound()
	}
	s.next, s.current = nil, r
	s.mu.Unlock()

	keys, err := s.fetcher.fetch(ctx)
	if err == nil {
		s.install(keys)
	} else if ctx.Err() == nil {
		s.requestRefresh(err)
	}

	s.mu.Lock()
	s.current = nil
	s.mu.Unlock()
	close(r.done)
	return err == nil
}

func (s *source) install(keys []*key) {
	before := s.set.Load()
	s.set.Store(before.after(keys, s.now()))
	s.fetched.Add(1)
	if !s.up.Swap(true) {
		s.log.Info("the keys of an issuer of tokens are known", "keys", len(keys))
	}
}

func (s *source) requestRefresh(err error) {
	if s.failed.Add(1) == 1 || s.up.Load() {
		s.log.Warn("the keys of an issuer of tokens cannot be fetched; those that are known go on until they are "+
			"too old", "known", s.keys() != nil, "error", why(err))
	}
	s.up.Store(false)
}

// end lets nobody wait for what will not come.
func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = true; s.next != nil {
		close(s.next.done)
		s.next = nil
	}
}

// keys are those that count; nil: none do.
func (s *source) keys() *keySet {
	set := s.set.Load()
	if set == nil || s.now().Sub(set.at) > s.settings.MaxStale {
		return nil
	}
	return set
}

// inProgress is a fetch that has begun, or will at once; nil: there is none.
func (s *source) inProgress() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current
	}
	return s.next
}

// again has the keys fetched anew, unless that was done too often: then it is nil.
func (s *source) again() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil || s.ended {
		return s.next
	}
	if now := s.now(); !s.own.Allow(now) || !s.all.Allow(now) {
		s.limited.Add(1)
		return nil
	}
	s.next = newRound()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.next
}

// wait waits for a fetch, or until ctx ends.
func (r *round) wait(ctx context.Context) {
	if r == nil {
		return
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}
