package pick_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/pick"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

func fleet(backends ...string) *router.Fleet {
	return filtertest.Fleet(router.FleetConfig{Backends: router.Addrs(backends...)})
}

// TestWhere: a direction of this attempt counts before the pin, and the pin before the load.
func TestWhere(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall()
	c.Fleet = fleet("a:1", "b:1", "c:1")
	var f pick.Filter
	at := func() string {
		s := &pick.State{}
		if step := f.Admit(c, s); step != filter.Continue {
			t.Fatalf("step %d", step)
		}
		f.Done(c, s, &filter.Result{Result: &relay.Result{}, Final: true})
		return c.Endpoint.Addr
	}
	c.Pin.Backend, c.Attempt.Directed = c.Fleet.Backends[1], c.Fleet.Backends[2]
	if got := at(); got != "c:1" || c.Attempt.Directed != nil {
		t.Errorf("directed: %s; then directed to %v", got, c.Attempt.Directed)
	}
	for range 20 {
		if got := at(); got != "b:1" {
			t.Fatalf("pinned: %s", got)
		}
	}
}

// TestSecondAttempt: another backend than the one where the call did not start.
func TestSecondAttempt(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall()
	c.Fleet = fleet("a:1", "b:1")
	var f pick.Filter
	for range 20 {
		s := &pick.State{}
		c.Endpoint = nil
		f.Admit(c, s)
		first := c.Endpoint
		f.Done(c, s, &filter.Result{Unsent: relay.ErrGoAway}) // which says nothing of the backend
		if f.Admit(c, s); c.Endpoint == first {
			t.Fatalf("again %s", first.Addr)
		}
		f.Done(c, s, &filter.Result{Result: &relay.Result{}, Final: true})
	}
}

// A fleet's two backends get a call each when both calls run at once.
func Example() {
	f, all := pick.Filter{}, fleet("a:1", "b:1")
	begin := func() string {
		c, _ := filtertest.NewCall()
		c.Fleet = all
		f.Admit(c, &pick.State{})
		return c.Endpoint.Addr
	}
	first, second := begin(), begin()
	fmt.Println(first != second)
	// Output: true
}
