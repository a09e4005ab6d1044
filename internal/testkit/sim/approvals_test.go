package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/sim"
	"github.com/capgate/capgate/policy/approvals"
)

const (
	approvalTTL = 3 * time.Second
	sessionTTL  = 5 * time.Second
	sessionHeld = 2 * time.Second // in memory
)

// TestApprovals: under all faults of replicas and Redis, an approval is redeemed once, by the approved call, in time,
// and not after a denial. Every operation ends, and after the faults, everything works again.
//
// This also holds if Redis is full for a time, or restarts without its data, and calls run after that.
func TestApprovals(t *testing.T) {
	var all approvalsTally
	check(t, func(w *sim.Simulation) { all.add(playApprovalsOf(w).ledger) })
	t.Logf("%+v", all)
	if manyRuns() && (all.emptied == 0 || all.anew == 0 || all.used < all.runs) {
		t.Errorf("%+v, want more calls, also after Redis lost its data", all)
	}
}

// approvalsTally counts runs and redemptions.
type approvalsTally struct {
	runs    int
	emptied int // runs in which Redis lost its data
	used    int // redemptions before the faults end
	anew    int // redemptions after Redis had lost its data
}

func (n *approvalsTally) add(l *ledger) {
	n.runs++
	if l.empties > 0 {
		n.emptied++
	}
	n.used, n.anew = n.used+l.used, n.anew+l.anew
}

// approvalsRun is a run of callers and approvers at several replicas.
type approvalsRun struct {
	*cluster[*approvals.Service]
	ledger *ledger
}

func playApprovals(w *sim.Simulation) { playApprovalsOf(w) }

func playApprovalsOf(w *sim.Simulation) *approvalsRun {
	p := &approvalsRun{ledger: &ledger{w: w, all: map[string]*entry{}}}
	p.cluster = newCluster(w, 3, func(_ context.Context, s *redisstore.Store, _ string) (
		*approvals.Service, func(context.Context),
	) {
		k, err := approvals.New(s.Approvals(), approvals.Options{TTL: approvalTTL, SessionTTL: sessionTTL,
			SessionCacheTTL: sessionHeld, Jitter: w.Jitter})
		if err != nil {
			panic(err)
		}
		return k, k.Run
	})
	most := uint64(20) // commands that the replica of Redis receives at a time
	lags := w.Seed%3 == 0
	if lags {
		most = 1
		w.FaultRate(0.2)
	}
	p.copies(most)
	w.Faults = func() []sim.Event {
		switch {
		case !lags:
			return p.faults(p.ledger.forget, p.ledger.emptied)
		case p.redis.Lag() > 0 && p.ledger.ran():
			return []sim.Event{p.failover(p.ledger.forget)} // a failover could lose the record that a call runs
		}
		return nil
	}
	w.Check = p.check
	for i := range 4 {
		w.Go(fmt.Sprintf("caller%d", i), p.caller)
	}
	for i := range 2 {
		w.Go(fmt.Sprintf("approver%d", i), p.approver)
	}
	w.Chaos(1000)
	w.Settle(time.Minute)
	w.Go("finally", p.finally)
	w.Settle(time.Minute)
	p.end()
	return p
}

// wanted returns the nth kind of call.
func wanted(n int) *approvals.Request {
	r := &approvals.Request{Tenant: "acme", User: "ann", Agent: "bot", Capability: "mail", Tool: "send",
		Args: fmt.Appendf(nil, `{"n":%d}`, n)}
	if n >= 2 {
		r.Session = "s1"
	}
	return r
}

// caller makes calls that need an approval.
func (p *approvalsRun) caller(a *sim.Actor) {
	for range 6 {
		n := a.IntN(4)
		if !p.turn(a, fmt.Sprintf("creates for call %d", n)) {
			return
		}
		var got approvals.Approval
		var granted bool
		var refusal *call.Refusal
		r := p.some(a)
		began := p.Now()
		if !p.at(a, r, "create", callLimit, func(ctx context.Context, k *approvals.Service) {
			got, granted, refusal = k.Create(ctx, wanted(n))
		}) {
			continue
		}
		if granted {
			p.ledger.granted(began, n)
			continue
		}
		if refusal != nil {
			p.Note("call %d is refused: %s", n, refusal.Reason)
			a.Pause(p.ctx, time.Second)
			continue
		}
		p.ledger.created(got.ID, n)
		if a.IntN(3) > 0 {
			p.wait(a, got.ID)
		}
		p.redeem(a, got.ID, n)
	}
}

// wait waits for an answer.
func (p *approvalsRun) wait(a *sim.Actor, id string) {
	limit := time.Duration(a.Int64N(int64(4 * time.Second)))
	r := p.some(a)
	p.at(a, r, "wait", limit+callLimit, func(ctx context.Context, k *approvals.Service) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		_, _ = k.Wait(ctx, "acme", id)
	})
}

// redeem redeems an approval a few times, sometimes with other arguments, and may return it.
func (p *approvalsRun) redeem(a *sim.Actor, id string, n int) {
	for left := 1 + a.IntN(4); left > 0; left-- {
		with := n
		if a.IntN(4) == 0 {
			with = a.IntN(4)
		}
		if !p.turn(a, fmt.Sprintf("redeems for call %d", with)) {
			return
		}
		var use approvals.Redemption
		var refusal *call.Refusal
		r := p.some(a)
		began := p.Now()
		if !p.at(a, r, "redeem", callLimit, func(ctx context.Context, k *approvals.Service) {
			use, refusal = k.Redeem(ctx, id, wanted(with))
		}) {
			continue
		}
		if refusal != nil {
			p.Note("redemption refused: %s", refusal.Reason)
			if a.Pause(p.ctx, time.Second) && refusal.Kind == call.Unavailable {
				left++ // it was not decided
			}
			continue
		}
		p.ledger.redeemed(id, began, with)
		if a.IntN(3) == 0 && p.turn(a, "releases") {
			p.ledger.releasing(id)
			p.at(a, r, "release", callLimit, func(ctx context.Context, k *approvals.Service) {
				_ = k.Release(ctx, use)
			})
		}
	}
}

// approver answers approvals.
func (p *approvalsRun) approver(a *sim.Actor) {
	for range 8 {
		if !a.TurnWhen(p.ctx, "answers", func() bool { return len(p.up()) > 0 && p.ledger.some() || p.Settling() }) {
			return
		}
		id := p.ledger.any(a)
		if id == "" {
			continue
		}
		state, answer := approvals.Approved, approvals.Answer{By: "eve"}
		if a.IntN(4) == 0 {
			state = approvals.Denied
		}
		if a.IntN(4) == 0 {
			answer.Remember = approvals.ThisSession
		}
		began := p.ledger.answering(id, state, answer.Remember)
		var err error
		var got approvals.Approval
		if p.at(a, p.some(a), "answer", callLimit, func(ctx context.Context, k *approvals.Service) {
			if state == approvals.Approved {
				got, err = k.Approve(ctx, "acme", id, answer)
			} else {
				got, err = k.Deny(ctx, "acme", id, answer)
			}
		}) && err == nil {
			p.ledger.answered(id, began, state)
			if got.Covered != nil {
				p.ledger.covered(got.Covered.Approvals, state)
			}
		} else {
			a.Pause(p.ctx, time.Second)
		}
	}
}

// check compares the latest redemptions with the data in Redis.
func (p *approvalsRun) check() error {
	m := p.redis.Master()
	return p.ledger.check(func(id, field string) string { return m.HGet("cg:{acme:approvals}:record:"+id, field) })
}
