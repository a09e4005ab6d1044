package open_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/open"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// drop removes the key from a call.
func drop(c *filter.Call) { c.Stream.DropHeader("x-api-key") }

// of returns a call on a connection, from a client at an address.
func of(conn *filtertest.Stream, address string) *filter.Call {
	return &filter.Call{Opening: &filter.Opening{}, Stream: conn, Client: filter.Client{Address: address}}
}

// TestLimits: the gateway, a network and a connection each have a limit of concurrent calls. A call that has ended
// makes room for another.
func TestLimits(t *testing.T) {
	t.Parallel()
	_, one := filtertest.NewCall()
	_, other := filtertest.NewCall()
	_, third := filtertest.NewCall()
	f := open.New(drop, open.Limits{All: 3, Network: 2, Connection: 1})
	var states [5]open.State
	admit := func(what string, want bool, i int, conn *filtertest.Stream, address string) {
		t.Helper()
		if got := f.Admit(of(conn, address), &states[i]) == filter.Continue; got != want {
			t.Errorf("%s is admitted: %t", what, got)
		}
	}
	admit("a connection's call", true, 0, one, "10.0.0.1")
	admit("a connection's second call", false, 1, one, "10.0.0.1")
	admit("an address' second call", true, 1, other, "10.0.0.1")
	admit("an address' third call", false, 2, third, "10.0.0.1")
	_, fourth := filtertest.NewCall()
	admit("the gateway's third call", true, 2, third, "2001:db8::1")
	admit("the gateway's fourth call", false, 3, fourth, "2001:db9::1")
	f.Done(nil, &states[0], &filter.Result{Final: true})
	admit("a call after the end of another", true, 3, fourth, "2001:db9::1")
	c := of(one, "10.0.0.2")
	if f.Admit(c, &states[4]); c.Answer().Refusal == nil || c.Answer().Refusal.Reason != "OPEN_CALLS_FULL" ||
		c.Answer().Refusal.RetryAfter == 0 {
		t.Errorf("%+v", c.Answer().Refusal)
	}
}

// TestOwnCalls: calls of the gateway itself do not count for a connection.
func TestOwnCalls(t *testing.T) {
	t.Parallel()
	f := open.New(drop, open.Limits{Connection: 1})
	_, own := filtertest.NewCall()
	own.Client = relay.Peer{Internal: true}
	for range 3 {
		if step := f.Admit(of(own, ""), &open.State{}); step != filter.Continue {
			t.Errorf("step %d", step)
		}
	}
}

// Example: a load balancer needs no credential, and one that it sends is removed.
func Example() {
	c, stream := filtertest.NewCall("x-api-key", "k")
	step := open.New(drop, open.Limits{}).Admit(c, &open.State{})
	_, left := stream.Header("x-api-key")
	fmt.Println(step == filter.Continue, c.Info.Tenant, left)
	// Output: true default false
}
