package overload_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	overloadfilter "github.com/capgate/capgate/gateway/filter/overload"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// begin admits a call of a tenant. An empty name means that there are no tenants.
func begin(f *overloadfilter.Filter, who string) (c *filter.Call, step filter.Step, end func()) {
	c, _ = filtertest.NewCall()
	c.Info.Tenant = tenant.Default
	if who != "" {
		c.Info.Tenant, c.Principal.Settings = who, &tenant.Settings{ID: who}
	}
	s := &overloadfilter.State{}
	step = f.Admit(c, s)
	return c, step, func() { f.Done(c, s, &filter.Result{Final: true}) }
}

// TestOverFairShare: calls of the tenant over its share are rejected with that reason, and others are admitted.
func TestOverFairShare(t *testing.T) {
	t.Parallel()
	f := overloadfilter.New(overload.New(overload.Config{MaxInFlight: 10}))
	for range 20 {
		c, step, _ := begin(f, "acme")
		if step == filter.Continue {
			continue
		}
		if a := c.Answer(); a.Refusal != filter.OverFairShare || c.Shed == overload.NoLimit {
			t.Fatalf("%+v, shed %q", a.Refusal, c.Shed)
		}
		if _, step, _ := begin(f, "globex"); step != filter.Continue {
			t.Error("the other tenant has no room")
		}
		return
	}
	t.Error("a tenant has all the room")
}

// TestNoTenants: without tenants, nothing is reserved for others.
func TestNoTenants(t *testing.T) {
	t.Parallel()
	const most = 100
	f := overloadfilter.New(overload.New(overload.Config{MaxInFlight: most}))
	for i := range most {
		if c, step, _ := begin(f, ""); step != filter.Continue {
			t.Fatalf("call %d of %d: %+v", i+1, most, c.Answer().Refusal)
		}
	}
}

// TestQuiet: calls that are shed at one time share the log lines of that second, however long they waited.
func TestQuiet(t *testing.T) {
	t.Parallel()
	const most = 100
	f := overloadfilter.New(nil)
	now, lines := time.Unix(1e9, 0), 0
	for i := range 10 * most {
		if !f.Quiet(now.Add(time.Duration(i%2) * time.Second)) {
			lines++
		}
	}
	if lines > 2*most {
		t.Errorf("%d lines, want %d in either second at the most", lines, most)
	}
}

// A process that admits one concurrent call sheds the second.
func Example() {
	f := overloadfilter.New(overload.New(overload.Config{MaxInFlight: 1}))
	_, _, end := begin(f, "")
	c, _, _ := begin(f, "")
	fmt.Println(c.Answer().Refusal.Reason)
	end()
	_, step, _ := begin(f, "")
	fmt.Println(step == filter.Continue)
	// Output:
	// OVERLOADED
	// true
}
