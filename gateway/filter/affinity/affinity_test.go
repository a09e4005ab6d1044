package affinity_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	affinityfilter "github.com/capgate/capgate/gateway/filter/affinity"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// resolver always returns the same answer, from the cache or from the store.
type resolver struct {
	answer affinity.Answer
	known  bool
	asked  []affinity.Query
}

func (r *resolver) Lookup(q *affinity.Query) (affinity.Answer, bool) {
	r.asked = append(r.asked, *q)
	return r.answer, r.known
}

func (r *resolver) Resolve(_ affinity.Query, done func(affinity.Answer)) { go done(r.answer) }

func fleet() *router.Fleet {
	return filtertest.Fleet(router.FleetConfig{
		Backends: router.Addrs("a:1", "b:1"), Affinity: router.Affinity{Sessions: true},
	})
}

func pass(t check.TB, f affinityfilter.Filter, c *filter.Call, stream *filtertest.Stream) filter.Step {
	s := &affinityfilter.State{}
	step := f.Admit(c, s)
	for step == filter.Wait {
		check.Received(t, stream.Resumed, "the resumption")
		step = f.Admit(c, s)
	}
	return step
}

// TestPin: a call of a session gets the session's pin, whether it is cached or has to be fetched.
func TestPin(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		c, stream := filtertest.NewCall()
		c.Fleet, c.Info.Session = fleet(), "s1"
		pinned := c.Fleet.Backend("b:1")
		f := affinityfilter.New(&resolver{answer: affinity.Answer{Backend: pinned}, known: known})
		if step := pass(t, f, c, stream); step != filter.Continue || c.Pin.Backend != pinned {
			t.Errorf("known %t: step %d, %v", known, step, c.Pin.Backend)
		}
	}
}

// TestRefused: a session whose backend is gone is rejected with the resolver's refusal.
func TestRefused(t *testing.T) {
	t.Parallel()
	gone := &call.Refusal{Kind: call.Unavailable, Reason: "SESSION_LOST"}
	for _, known := range []bool{true, false} {
		c, stream := filtertest.NewCall()
		c.Fleet, c.Info.Session = fleet(), "s1"
		f := affinityfilter.New(&resolver{answer: affinity.Answer{Refusal: gone}, known: known})
		if step := pass(t, f, c, stream); step != filter.Stop || c.Answer().Refusal != gone {
			t.Errorf("known %t: step %d, refusal %+v", known, step, c.Answer().Refusal)
		}
	}
}

// TestDirected: if the attempt is directed to a backend, the session is not looked up.
func TestDirected(t *testing.T) {
	t.Parallel()
	c, stream := filtertest.NewCall()
	c.Fleet, c.Info.Session = fleet(), "s1"
	c.Route.Directed = c.Fleet.Backend("a:1")
	r := &resolver{known: true}
	if step := pass(t, affinityfilter.New(r), c, stream); step != filter.Continue || len(r.asked) != 0 {
		t.Errorf("step %d, asked %v", step, r.asked)
	}
}

// A call without a session or an artifact may go to any backend. A call of a session is pinned.
func Example() {
	c, stream := filtertest.NewCall()
	c.Fleet = fleet()
	f := affinityfilter.New(&resolver{answer: affinity.Answer{Backend: c.Fleet.Backend("b:1")}, known: true})
	pass(&testing.B{}, f, c, stream)
	fmt.Println(c.Pin.Backend != nil)
	c.Info.Session = "s1"
	pass(&testing.B{}, f, c, stream)
	fmt.Println(c.Pin.Backend.Addr)
	// Output:
	// false
	// b:1
}
