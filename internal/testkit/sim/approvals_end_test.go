package sim_test

import (
	"context"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/sim"
	"github.com/capgate/capgate/policy/approvals"
)

// finally checks that everything works after the faults: each replica creates an approval, waits for an answer at
// another replica, and redeems it.
func (p *approvalsRun) finally(a *sim.Actor) {
	for i, r := range p.replicas {
		other := p.replicas[(i+1)%len(p.replicas)]
		for tries := 0; !p.works(a, r, other, 10+i); tries++ {
			if tries == 20 || !a.Turn(p.ctx, "tries again") {
				p.Fail("%s does not work after the faults", r.name)
				return
			}
			time.Sleep(500 * time.Millisecond) //nolint:forbidigo // in a bubble
		}
	}
}

// works reports whether an approval at one replica, answered at another, works.
func (p *approvalsRun) works(a *sim.Actor, at, other *replica[*approvals.Service], n int) (ok bool) {
	r := wanted(n)
	r.Session = ""
	var got approvals.Approval
	var refusal *call.Refusal
	if !p.at(a, at, "create", callLimit, func(ctx context.Context, k *approvals.Service) {
		got, _, refusal = k.Create(ctx, r)
	}) || refusal != nil {
		return false
	}
	p.ledger.created(got.ID, n)
	waited := make(chan error, 1)
	go func() {
		var state approvals.State
		var err error
		p.at(a, at, "wait", approvalTTL+callLimit, func(ctx context.Context, k *approvals.Service) {
			var now approvals.Approval
			now, err = k.Wait(ctx, "acme", got.ID)
			state = now.State
		})
		if err == nil && state != approvals.Approved {
			err = fmt.Errorf("the waiting call got %s", state)
		}
		waited <- err
	}()
	p.ledger.answering(got.ID, approvals.Approved, approvals.ThisCall)
	var err error
	up := p.at(a, other, "approve", callLimit, func(ctx context.Context, k *approvals.Service) {
		_, err = k.Approve(ctx, "acme", got.ID, approvals.Answer{By: "eve"})
	})
	if failed := <-waited; !up || err != nil || failed != nil {
		return false
	}
	began := p.Now()
	if !p.at(a, at, "redeem", callLimit, func(ctx context.Context, k *approvals.Service) {
		_, refusal = k.Redeem(ctx, got.ID, r)
	}) || refusal != nil {
		return false
	}
	p.ledger.redeemed(got.ID, began, n)
	return true
}
