package mcp

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/mcpsession"
)

const (
	subscribesAtOnce   = 4                // subscriptions of a stream that begin at servers
	subscribePatience  = 5 * time.Second  // for which an acknowledgment waits for the servers
	subscribeRetry     = time.Second      // after a subscription has failed or ended; then twice as long, and so on
	subscribeRetryMost = time.Minute      // of these waits
	retrySpread        = 0.2              // share of a wait, so that streams do not subscribe at the same moment
	subscribeSteady    = time.Minute      // after which the waits start again
	urisAge            = 10 * time.Minute // before the subscriptions of a session are read again, which renews them
	urisRetry          = 10 * time.Second // the same after an error
	subscriptionCost   = 1 << 10          // the gateway's memory for a subscription, besides its URI
	subscribingCost    = 10 << 10         // the same for the first one: a goroutine, and tables
)

// subscriptions sends the updates of resources on one stream. It has a goroutine while there are any. Many updates of
// one resource become one.
type subscriptions struct {
	h    *Handler
	x    *exchange
	send func(uri string) error
	// read returns the resources to which the client has subscribed.
	read func(ctx context.Context) ([]string, error)

	ctx     context.Context //nolint:containedctx // of the stream
	cancel  context.CancelFunc
	running sync.WaitGroup
	slots   chan struct{}
	wake    chan struct{} // signals a change of what mu guards
	held    request.Growing

	mu      sync.Mutex
	runs    bool
	ended   bool
	due     time.Time // when read is called again
	unread  bool      // read has failed, so that all may lack subscriptions
	all     map[string]*subscription
	leaving func() // of the session
}

// subscription is a subscription of a stream. The mu of subscriptions guards it.
type subscription struct {
	uri        string // of the client
	capability string
	follows    *following // nil means that it is not subscribed at the server
	pending    bool       // a call subscribes
	missed     bool       // updates may have been lost since the client has subscribed
	err        error      // of the last call
	wait       backoff.Backoff
	due        time.Time // of the next call
}

// following is a subscription at a server.
type following struct {
	questions.Follower
	stop          context.CancelFunc
	since         time.Time
	updated, lost bool
}

// newSubscriptions returns the subscriptions of a stream. The caller must call stop before its handler returns.
func (h *Handler) newSubscriptions(ctx context.Context, x *exchange, send func(uri string) error) *subscriptions {
	s := &subscriptions{h: h, x: x, send: send, slots: make(chan struct{}, subscribesAtOnce),
		wake: make(chan struct{}, 1), all: map[string]*subscription{}, leaving: func() {}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// ofSession follows the subscriptions of a session. It does nothing if s is nil.
func (s *subscriptions) ofSession() {
	if s == nil {
		return
	}
	levels, key := s.h.cfg.Levels, s.h.cfg.Session(s.x.r, s.x.session.ID)
	s.read = func(ctx context.Context) ([]string, error) { return levels.URIs(ctx, key) }
	s.leaving = levels.Stream(key.ID, s.changed)
	s.changed()
}

// of subscribes to resources for as long as the stream lasts, and returns those that the servers accept, or that may
// be subscribed later. The caller must then call changed.
func (s *subscriptions) of(uris []string) (accepted []string) {
	s.read = func(context.Context) ([]string, error) { return uris, nil }
	ctx, cancel := context.WithTimeout(s.ctx, subscribePatience)
	defer cancel()
	_ = s.keep(uris) // without memory, none is accepted
	for _, one := range s.all {
		one.missed = false
	}
	for s.start(); s.arePending() && ctx.Err() == nil; {
		signal.Wait(ctx, s.wake, subscribePatience)
	}
	s.mu.Lock()
	uris = slices.DeleteFunc(uris, func(uri string) bool {
		one := s.all[uri]
		return one == nil || !one.pending && one.follows == nil && grpcstatus.Code(one.err) != codes.Unavailable
	})
	for _, one := range s.all {
		one.missed = one.missed || one.pending
	}
	s.mu.Unlock()
	_ = s.keep(uris) // fewer than before
	return uris
}

// changed makes the goroutine read the subscriptions. It does not block.
func (s *subscriptions) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = time.Time{}
	signal.Wake(s.wake)
	if !s.runs && !s.ended {
		s.runs = true
		s.running.Go(func() { _ = recovery.Do("mcp subscriptions", func() error { s.run(); return nil }) })
	}
}

// stop ends all subscriptions of the stream, and waits for the goroutines.
func (s *subscriptions) stop() {
	if s == nil {
		return
	}
	s.leaving()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

// run keeps the subscriptions and sends updates, until the stream ends or there are no subscriptions.
func (s *subscriptions) run() {
	for s.ctx.Err() == nil {
		s.refresh()
		wait, over := s.start()
		switch {
		case over:
			return
		case s.deliver():
			backoff.Sleep(s.ctx, listenPause)
		default:
			signal.Wait(s.ctx, s.wake, wait)
		}
	}
}

// refresh reads the subscriptions if that is due. After an error the last ones stay.
func (s *subscriptions) refresh() {
	s.mu.Lock()
	due := !time.Now().Before(s.due)
	if due {
		s.due = time.Now().Add(urisAge)
	}
	s.mu.Unlock()
	if !due {
		return
	}
	uris, err := s.read(s.ctx)
	if err == nil {
		err = s.keep(uris)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unread = err != nil; s.unread {
		s.due = time.Now().Add(backoff.Jitter(urisRetry, retrySpread))
	}
}

// keep adds and removes subscriptions. The error means that there is no memory for them.
func (s *subscriptions) keep(uris []string) error {
	size := 0
	if len(uris) > 0 {
		size = subscribingCost
	}
	for _, uri := range uris {
		size += len(uri) + subscriptionCost
	}
	if err := s.held.HoldAll(s.ctx, size); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, one := range s.all {
		if !slices.Contains(uris, uri) {
			one.leave()
			delete(s.all, uri)
		}
	}
	for _, uri := range uris {
		if s.all[uri] == nil {
			s.all[uri] = &subscription{uri: uri, missed: true,
				wait: backoff.Backoff{First: subscribeRetry, Max: subscribeRetryMost}}
		}
	}
	return nil
}

// leave ends a subscription at the server for good. The caller must hold mu.
func (one *subscription) leave() {
	if one.follows != nil {
		one.follows.Over.Store(true)
		one.follows.stop()
		one.follows = nil
	}
}

// retry ends a subscription at the server until the next call. The caller must hold mu.
func (one *subscription) retry() {
	if one.follows != nil && time.Since(one.follows.since) >= subscribeSteady {
		one.wait.Reset()
	}
	one.leave()
	one.missed, one.due = true, time.Now().Add(backoff.Jitter(one.wait.Next(), retrySpread))
}

// start begins the calls that are due, and returns the time until the next one. over is true if there are no
// subscriptions, so that the goroutine ends.
func (s *subscriptions) start() (wait time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if over = len(s.all) == 0 && !s.unread && now.Before(s.due); over {
		s.runs = false
		return 0, true
	}
	next := s.due
	for _, one := range s.all {
		if one.follows != nil && one.follows.lost {
			one.retry()
		}
		switch {
		case one.pending || one.follows != nil:
		case one.due.After(now):
			if one.due.Before(next) {
				next = one.due
			}
		default:
			one.pending = true
			s.running.Go(func() { s.subscribe(one) })
		}
	}
	return next.Sub(now), false
}

// arePending reports whether calls have not ended yet.
func (s *subscriptions) arePending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.pending {
			return true
		}
	}
	return false
}

// subscribe makes one call.
func (s *subscriptions) subscribe(one *subscription) {
	defer signal.Wake(s.wake)
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-s.ctx.Done():
		return
	}
	ctx, stop := context.WithCancel(s.ctx)
	f := &following{stop: stop, since: time.Now()}
	f.Context, f.Alone = ctx, s.x.read.isStateless()
	f.Updated = s.set(&f.updated)
	f.Lost = s.set(&f.lost)
	capability := ""
	err := recovery.Do("mcp subscriptions", func() (err error) {
		capability, err = s.h.subscribeTo(ctx, s.x, one.uri, &f.Follower)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	one.pending, one.err = false, err
	switch {
	case s.all[one.uri] != one: // the client has unsubscribed meanwhile
		f.Over.Store(true)
		stop()
	case err != nil:
		stop()
		one.retry()
	default:
		one.follows, one.capability = f, capability
		f.updated = f.updated || one.missed
		one.missed = false
	}
}

// set returns the function that sets a flag.
func (s *subscriptions) set(flag *bool) func() {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*flag = true
		signal.Wake(s.wake)
	}
}

// deliver sends the updates that the client may get, and reports whether there were any. The rules decide about each.
func (s *subscriptions) deliver() (sent bool) {
	for _, one := range s.updated() {
		sent = true
		may, err := s.h.cfg.Features.Updates(s.ctx, one.capability)
		s.mu.Lock()
		if one.follows == nil || err != nil { // the client has unsubscribed, or the rules are unavailable: later
			s.mu.Unlock()
			continue
		}
		if !may {
			one.retry()
			s.mu.Unlock()
			continue
		}
		one.follows.updated = false
		s.mu.Unlock()
		if s.send(one.uri) != nil { // the client reads nothing
			s.cancel()
			return true
		}
	}
	return sent
}

// updated returns the subscriptions with an update.
func (s *subscriptions) updated() (all []*subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.follows != nil && one.follows.updated {
			all = append(all, one)
		}
	}
	return all
}

// tooMany reports whether a stream cannot have so many subscriptions.
func tooMany(uris []string) bool {
	size := 0
	for _, uri := range uris {
		size += len(uri)
	}
	return len(uris) > mcpsession.MaxURIs || size > mcpsession.MaxURIBytes
}
