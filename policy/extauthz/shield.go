package extauthz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/capgate/capgate/internal/call"
)

// maxAtOnce is how many questions one Shield is asked at once. The others wait.
const maxAtOnce = 64

// asker is one form of Shield.
type asker interface {
	// ask waits until ctx ends. The error is a *failure.
	ask(ctx context.Context, a *action) (*reply, error)
	close()
}

// shield is one Shield, and what it said. Who uses it holds its lease.
type shield struct {
	lease
	cfg     Config
	asker   asker
	known   *lru.Cache[hash, verdict] // nil: nothing is kept
	flights flights
	places  chan struct{}
	failing atomic.Bool // so that the log has one line for an outage
	counted *counters
	now     func() time.Time
	log     *slog.Logger
}

// start makes a shield, which counts on from the one that it replaces, if that is not nil.
func (s *Shields) start(c Config, before *shield) (*shield, error) {
	sh := &shield{
		cfg: c, places: make(chan struct{}, maxAtOnce), counted: new(counters),
		now: s.opts.Now, log: s.opts.Log.With("shield", c.Name),
	}
	if before != nil {
		sh.counted = before.counted
	}
	err := errors.New("it needs an address or a URL, and not both")
	switch {
	case c.Address != "" && c.URL == "":
		sh.asker, err = newGRPC(c.Address, c.TLS)
	case c.URL != "" && c.Address == "":
		sh.asker, err = newHTTP(c.URL, c.TLS)
	}
	if err != nil {
		return nil, fmt.Errorf("shield %s: %w", c.Name, err)
	}
	if c.Cache > 0 {
		sh.known, _ = lru.New[hash, verdict](c.Cache) // fails for a size of 0
	}
	sh.flights = flights{ctx: s.ctx, timeout: cmp.Or(c.Timeout, 500*time.Millisecond), byHash: map[hash]*flight{}}
	s.open.Add(1)
	sh.end = func() {
		sh.asker.close()
		s.open.Done()
	}
	return sh, nil
}

// judge is called by somebody who holds the lease.
func (s *shield) judge(ctx context.Context, c *call.Call, args []byte) (Answer, *call.Refusal) {
	a, refusal := newAction(s.cfg.Name, c, args)
	if refusal != nil {
		return Answer{}, refusal
	}
	if v, ok := s.recall(a.hash); ok {
		return s.answer(c, v, true)
	}
	if refusal := a.check(c); refusal != nil {
		return Answer{}, refusal
	}
	v, err := s.flights.join(ctx, a.hash, &s.lease, func(ctx context.Context) (verdict, error) { return s.ask(ctx, a) })
	switch {
	case err == nil:
		return s.answer(c, v, false)
	case ctx.Err() != nil: // the call's own time is over, and no failure of Shield's
		return Answer{}, unavailable(c)
	}
	return s.failed(c, err)
}

// recall finds a verdict that still stands.
func (s *shield) recall(h hash) (verdict, bool) {
	if s.known == nil {
		return verdict{}, false
	}
	v, ok := s.known.Get(h)
	if ok && !s.now().Before(v.until) {
		s.known.Remove(h)
		ok = false
	}
	return v, ok
}

// ask asks Shield, when there is a place, and keeps what it says.
func (s *shield) ask(ctx context.Context, a *action) (verdict, error) {
	if v, ok := s.recall(a.hash); ok { // the question before this one ended a moment ago
		return v, nil
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return s.note(ctx, nil, absent("too many questions wait"))
	}
	began := time.Now()
	r, err := s.asker.ask(ctx, a)
	if !errors.Is(ctx.Err(), context.Canceled) {
		s.counted.took(time.Since(began))
	}
	if err != nil {
		return s.note(ctx, nil, err)
	}
	v, _ := s.note(ctx, r, nil)
	if s.known != nil && v.until.After(s.now()) {
		s.known.Add(a.hash, v)
	}
	return v, nil
}

// note counts what came of a question, and logs the first and the last of an outage. A
// question that nobody waits for any more has not failed.
func (s *shield) note(ctx context.Context, r *reply, err error) (verdict, error) {
	if err == nil {
		if s.failing.CompareAndSwap(true, false) {
			s.log.Info("shield answers again")
		}
		return verdictOf(r, s.now()), nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return verdict{}, err
	}
	s.counted.failed(isMalformed(err))
	if s.failing.CompareAndSwap(false, true) {
		s.log.Warn("shield does not answer", "reason", err.Error(), "on_failure", s.cfg.OnFailure.String())
	}
	return verdict{}, err
}

func isMalformed(err error) bool {
	var f *failure
	return !errors.As(err, &f) || f.malformed
}

// answer is what a verdict means for a call.
func (s *shield) answer(c *call.Call, v verdict, cached bool) (Answer, *call.Refusal) {
	s.counted.answered(v.Verdict, cached)
	answer := Answer{Verdict: v.Verdict, Reason: v.reason, ActionHash: v.actionHash, Cached: cached}
	if v.Verdict == call.Block {
		return answer, blocked(c)
	}
	return answer, nil
}

// failed is what a failure means for a call.
func (s *shield) failed(c *call.Call, err error) (Answer, *call.Refusal) {
	answer := Answer{Verdict: s.cfg.OnFailure, Reason: "the shield " + s.cfg.Name + " could not be asked", Failed: true}
	if isMalformed(err) {
		answer.Reason = "the shield " + s.cfg.Name + " gave no answer that can be understood"
		answer.Verdict = min(answer.Verdict, call.Ask)
	}
	if answer.Verdict == call.Block {
		return answer, unavailable(c)
	}
	return answer, nil
}
