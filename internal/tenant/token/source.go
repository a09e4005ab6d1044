package token

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

// source has the keys of one issuer. One goroutine fetches them.
//
//	timer, or a token with an unknown key ──► next ──► current ──► fetch ──► set
type source struct {
	name     string
	settings Source
	fetcher  *fetcher
	now      func() time.Time
	log      *slog.Logger
	all      *tokenbucket.Bucket
	own      *tokenbucket.Bucket
	stop     context.CancelFunc // of run; nil: not started

	set    atomic.Pointer[keySet]   // nil: never fetched
	scopes atomic.Pointer[[]string] // that the issuer supports; nil: never fetched
	wake   chan struct{}
	up     atomic.Bool // the last fetch has succeeded

	fetched, failed, limited atomic.Int64

	mu            sync.Mutex
	next, current *refresh // nil: none
	ended         bool
}

// refresh is one fetch, for which any number of calls may wait.
type refresh struct{ done chan struct{} }

func newRefresh() *refresh { return &refresh{done: make(chan struct{})} }

// Bounds of fetches for unknown keys of one issuer.
const (
	fetchBurst = 3
	fetchEvery = 10 * time.Second
)

func newSource(i *Issuer, o *Options, all *tokenbucket.Bucket) *source {
	return &source{
		name: i.Name, settings: i.Source.withDefaults(), fetcher: newFetcher(i), now: o.Now,
		log: o.Log.With("issuer", i.Name),
		all: all, own: tokenbucket.New(fetchBurst, fetchEvery), wake: make(chan struct{}, 1), next: newRefresh(),
	}
}

// Pauses between attempts while an issuer does not answer.
const (
	minPause = time.Second
	maxPause = 30 * time.Second
)

// run fetches until ctx ends.
func (s *source) run(ctx context.Context) {
	defer s.end()
	pause := backoff.Backoff{First: minPause, Max: maxPause}
	for ctx.Err() == nil {
		wait := s.settings.Refresh
		if s.refreshOnce(ctx) {
			pause.Reset()
		} else {
			wait = min(pause.Next(), wait)
		}
		signal.Wait(ctx, s.wake, backoff.Jitter(wait, 0.1)) // spreads the fetches of many replicas
	}
}

// refreshOnce fetches once, and reports success.
func (s *source) refreshOnce(ctx context.Context) bool {
	s.mu.Lock()
	r := s.next
	if r == nil {
		r = newRefresh()
	}
	s.next, s.current = nil, r
	s.mu.Unlock()

	got, err := s.fetcher.fetch(ctx, s.settings.Timeout)
	if err == nil {
		s.scopes.Store(&got.scopes)
		s.install(got.keys)
	} else {
		s.refreshFailed(ctx, err)
	}

	s.mu.Lock()
	s.current = nil
	s.mu.Unlock()
	close(r.done)
	return err == nil
}

// install counts a fetch before its keys are in use, so that a call authenticated with the keys sees it in the
// statistics.
func (s *source) install(keys []*key) {
	s.fetched.Add(1)
	wasUp := s.up.Swap(true)
	s.set.Store(s.set.Load().after(keys, s.now()))
	if !wasUp {
		s.log.Info("keys of an issuer fetched", "keys", len(keys))
	}
}

// refreshFailed logs a failure, unless it is the end of ctx.
func (s *source) refreshFailed(ctx context.Context, err error) {
	ended := ctx.Err() != nil
	first := !ended && s.failed.Add(1) == 1
	if wasUp := s.up.Swap(false); !ended && (first || wasUp) {
		s.log.Warn("the keys of an issuer of tokens cannot be fetched; known keys stay valid until they are "+
			"too old", "known", s.keys() != nil, "error", why(err))
	}
}

// end wakes all waiting calls, as no further fetch follows.
func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up.Store(false)
	if s.ended = true; s.next != nil {
		close(s.next.done)
		s.next = nil
	}
}

// keys returns the current keys; nil: none, or too old.
func (s *source) keys() *keySet {
	set := s.set.Load()
	if set == nil || s.now().Sub(set.at) > s.settings.MaxStale {
		return nil
	}
	return set
}

// inProgress returns a fetch that is running or about to start; nil if there is none.
func (s *source) inProgress() *refresh {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current
	}
	return s.next
}

// requestRefresh requests a fetch. It returns nil if there were too many.
func (s *source) requestRefresh() *refresh {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil || s.ended {
		return s.next
	}
	if now := s.now(); s.own.Take(now) > 0 || s.all.Take(now) > 0 {
		s.limited.Add(1)
		return nil
	}
	s.next = newRefresh()
	signal.Wake(s.wake)
	return s.next
}

// wait waits for a fetch, or until ctx ends.
func (r *refresh) wait(ctx context.Context) {
	if r == nil {
		return
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}
