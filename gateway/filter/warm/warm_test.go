package warm_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/warm"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// TestKnownDialect: a call does not wait for a backend whose dialect is configured.
func TestKnownDialect(t *testing.T) {
	t.Parallel()
	for _, d := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
		c, stream := filtertest.NewCall()
		c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1"), Dialect: d})
		c.Endpoint = c.Fleet.Backends[0]
		if step := (warm.Filter{}).Admit(c, &warm.State{}); step != filter.Continue || stream.Waits() {
			t.Errorf("%s: step %d, waits %t", d, step, stream.Waits())
		}
	}
}

// A call does not wait for a backend whose dialect is known.
func Example() {
	c, stream := filtertest.NewCall()
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1"), Dialect: call.Live})
	c.Endpoint = c.Fleet.Backends[0]
	warm.Filter{}.Admit(c, &warm.State{})
	fmt.Println(stream.Waits())
	// Output: false
}
