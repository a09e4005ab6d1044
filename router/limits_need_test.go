package router_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// The slow calls of one tenant do not keep another tenant's calls from waiting: what a tenant's calls need is estimated
// from its own.
func TestSlowCallsOfATenantAreItsOwn(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		r := newLimited(t, nil, nil,
			router.Limit{PerBackend: 1, Queue: router.Queue{Size: 10, Wait: 20 * time.Second}}, named(1)...)
		for range 400 {
			_, a := r.fleet().AcquirePermit(router.PermitRequest{Tenant: "slow"}, nil)
			a.Claim.Done(router.Outcome{Class: router.Succeeded, Latency: time.Second, Took: time.Minute})
		}
		release := r.hold(router.PermitRequest{Tenant: "slow"})
		for tenant, waits := range map[string]bool{"slow": false, "other": true} {
			ended := make(chan router.PermitResult, 1)
			r.start(router.PermitRequest{Tenant: tenant, Left: 10 * time.Second, Whole: true},
				func(a router.PermitResult) { ended <- a })
			synctest.Wait()
			if got := len(ended) == 0; got != waits {
				t.Errorf("tenant %s: a call waits: %t, want %t", tenant, got, waits)
			}
		}
		release()
		synctest.Wait()
		r.end()
	})
}
