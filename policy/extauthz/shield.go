package extauthz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/cache"
)

// MaxConcurrent bounds the concurrent requests to one Shield. The others wait.
const MaxConcurrent = 64

// Client is a client of one Shield. It is safe for concurrent use.
type Client interface {
	// Evaluate waits until ctx ends. The error is Unreachable's or Malformed's.
	Evaluate(ctx context.Context, a *Action) (*Reply, error)
	Close()
}

// shield is one Shield with its cached verdicts. Its users hold its lease.
type shield struct {
	lease
	cfg      Config
	client   Client
	cache    *cache.Cache[verdict] // by the hash of an action; nil: no cache
	flights  flights
	permits  chan struct{}
	failing  atomic.Bool // so that an outage is logged once
	counters *counters
	now      func() time.Time
	log      *slog.Logger
}

// start makes a shield. It takes over the counters of the one that it replaces, which may be nil.
func (s *Shields) start(c Config, before *shield) (*shield, error) {
	sh := &shield{
		cfg: c, permits: make(chan struct{}, MaxConcurrent), counters: new(counters),
		now: s.opts.Now, log: s.opts.Log.With("shield", c.Name),
	}
	if before != nil {
		sh.counters = before.counters
	}
	var err error
	if sh.client, err = s.opts.Dial(&c); err != nil {
		return nil, fmt.Errorf("shield %s: %w", c.Name, err)
	}
	if c.Cache > 0 {
		sh.cache = cache.New[verdict](c.Cache)
	}
	sh.flights = flights{ctx: s.ctx, timeout: cmp.Or(c.Timeout, 500*time.Millisecond), byHash: map[hash]*flight{}}
	s.open.Add(1)
	sh.onEnd = func() {
		sh.client.Close()
		s.open.Done()
	}
	return sh, nil
}

// check checks a call. The caller holds the lease.
func (s *shield) check(ctx context.Context, c *call.Call, args []byte) (Answer, *call.Refusal) {
	a, refusal := newAction(&s.cfg, c, args)
	if refusal != nil {
		return Answer{}, refusal
	}
	if v, ok := s.lookup(a.hash); ok {
		return s.answer(c, v, true)
	}
	if refusal := a.check(c); refusal != nil {
		return Answer{}, refusal
	}
	a.tenant = strings.Clone(c.Tenant)
	v, err := s.flights.do(ctx, a.hash, &s.lease, func(ctx context.Context) (verdict, error) {
		return s.request(ctx, a)
	})
	switch {
	case err == nil:
		return s.answer(c, v, false)
	case ctx.Err() != nil: // the call's own deadline, and no failure of Shield's
		return Answer{}, unavailable(c)
	}
	return s.failed(c, err)
}

// lookup returns a cached verdict that has not expired.
func (s *shield) lookup(h hash) (verdict, bool) {
	if s.cache == nil {
		return verdict{}, false
	}
	e := s.cache.GetBytes(h[:])
	if e == nil {
		return verdict{}, false
	}
	if !s.now().Before(e.Value.expires) {
		s.cache.Remove(e.Key())
		return verdict{}, false
	}
	return e.Value, true
}

// request sends a request when a permit is free, and caches the verdict.
func (s *shield) request(ctx context.Context, a *Action) (verdict, error) {
	if v, ok := s.lookup(a.hash); ok { // an equal request has just ended
		return v, nil
	}
	select {
	case s.permits <- struct{}{}:
		defer func() { <-s.permits }()
	case <-ctx.Done():
		return s.record(ctx, nil, Unreachable("too many requests wait"))
	}
	began := time.Now()
	r, err := s.client.Evaluate(ctx, a)
	if !errors.Is(ctx.Err(), context.Canceled) {
		s.counters.observe(time.Since(began))
	}
	if err != nil {
		return s.record(ctx, nil, err)
	}
	v, _ := s.record(ctx, r, nil)
	if s.cache != nil && v.expires.After(s.now()) {
		e := cache.NewEntry[verdict](string(a.hash[:]))
		e.Value = v
		s.cache.Put(a.tenant, e)
	}
	return v, nil
}

// record counts the result of a request, and logs the begin and the end of an outage. A canceled request
// has not failed.
func (s *shield) record(ctx context.Context, r *Reply, err error) (verdict, error) {
	if err == nil {
		if s.failing.CompareAndSwap(true, false) {
			s.log.Info("the shield answers again")
		}
		return verdictOf(r, s.now()), nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return verdict{}, err
	}
	s.counters.countFailure(isMalformed(err))
	if s.failing.CompareAndSwap(false, true) {
		s.log.Warn("the shield does not answer", "reason", err.Error(), "on_failure", s.cfg.OnFailure.String())
	}
	return verdict{}, err
}

func isMalformed(err error) bool {
	var f *failure
	return !errors.As(err, &f) || f.malformed
}

// answer translates a verdict for a call.
func (s *shield) answer(c *call.Call, v verdict, cached bool) (Answer, *call.Refusal) {
	s.counters.countVerdict(v.Verdict, cached)
	answer := Answer{Verdict: v.Verdict, Reason: v.reason, ActionHash: v.actionHash, Cached: cached}
	if v.Verdict == call.Block {
		return answer, blocked(c)
	}
	return answer, nil
}

// failed translates a failure for a call.
func (s *shield) failed(c *call.Call, err error) (Answer, *call.Refusal) {
	answer := Answer{Verdict: s.cfg.OnFailure, Reason: "the shield " + s.cfg.Name + " is unavailable", Failed: true}
	if isMalformed(err) {
		answer.Reason = "the shield " + s.cfg.Name + " gave a malformed answer"
		answer.Verdict = min(answer.Verdict, call.Ask)
	}
	if answer.Verdict == call.Block {
		return answer, unavailable(c)
	}
	return answer, nil
}
