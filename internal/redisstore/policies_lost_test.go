package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy"
)

// TestLostRulesAreMarked: rules have an epoch from the first change on. The mark of a loss stays, whatever
// changes, until the loss is accepted; the last lost epochs are known.
func TestLostRulesAreMarked(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		p := open().Policies()
		revision := func() policy.Revision {
			t.Helper()
			r, err := p.Revision(t.Context())
			check.Must(t, err)
			return r
		}
		change := func() { set(t, p, rule("acme", policy.Name{Capability: "weather", Tool: "forecast"}, call.Allow)) }
		if was, err := p.AcceptLoss(t.Context()); was || err != nil {
			t.Errorf("without a loss: %v, %v", was, err)
		}
		change()
		first := revision()
		change()
		if r := revision(); first.Version != 1 || first.Epoch == "" || r.Version != 2 || r.Epoch != first.Epoch {
			t.Errorf("%+v after %+v", r, first)
		}
		for i := range 20 {
			check.Must(t, p.MarkLost(t.Context(), fmt.Sprint("epoch-", i)))
			change()
			before := revision()
			if before.Lost != fmt.Sprint("epoch-", i) {
				t.Errorf("after a change: %+v", before)
			}
			if was, err := p.AcceptLoss(t.Context()); !was || err != nil {
				t.Errorf("got %v, %v", was, err)
			}
			if r := revision(); r.Lost != "" || r.Epoch != first.Epoch || r.Version != before.Version+1 ||
				r.Accepted[0] != before.Lost {
				t.Errorf("accepted: %+v after %+v", r, before)
			}
		}
		if r := revision(); len(r.Accepted) != 16 || slices.Contains(r.Accepted, "epoch-3") {
			t.Errorf("got %q", r.Accepted)
		}
	})
}
