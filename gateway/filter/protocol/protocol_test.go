package protocol_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/protocol"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// callTo returns a call in one dialect whose backend speaks another.
func callTo(method call.Method, from call.Dialect, backends ...router.BackendConfig) *filter.Call {
	c, _ := filtertest.NewCall()
	c.Info.Method, c.Spoken.Method, c.Spoken.Dialect = method, method, from
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: backends})
	c.Endpoint = c.Fleet.Backends[0]
	return c
}

var (
	docBackend    = router.BackendConfig{Addr: "doc:1", Dialect: call.Doc}
	legacyBackend = router.BackendConfig{Addr: "legacy:1", Dialect: call.Legacy}
)

func TestModes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from    call.Dialect
		backend router.BackendConfig
		once    bool
		mode    dialect.Mode
		reason  string
	}{
		"same":             {call.Doc, docBackend, false, dialect.Same, ""},
		"translated":       {call.Doc, legacyBackend, false, dialect.Convert, ""},
		"translated twice": {call.Doc, legacyBackend, true, dialect.Impossible, "BACKEND_UNREACHABLE"},
	} {
		c := callTo(call.Invoke, test.from, test.backend)
		c.Attempt.Translated = test.once
		step := protocol.Filter{}.Admit(c, &protocol.State{})
		rejected := ""
		if step == filter.Stop {
			rejected = c.Answer().Refusal.Reason
		}
		if c.Attempt.Mode != test.mode || rejected != test.reason {
			t.Errorf("%s: mode %d, %q", name, c.Attempt.Mode, rejected)
		}
	}
}

// TestOtherBackend: a call that its backend's dialect cannot express goes to a backend whose dialect can, once in each
// attempt.
func TestOtherBackend(t *testing.T) {
	t.Parallel()
	c := callTo(call.Invoke, call.Doc, legacyBackend, docBackend)
	c.Attempt.Translated = true
	s, f := &protocol.State{}, protocol.Filter{}
	if step := f.Admit(c, s); step != filter.Again || c.Route.Directed == nil || c.Route.Directed.Addr != "doc:1" {
		t.Fatalf("step %d, directed %v", step, c.Route.Directed)
	}
	c.Route.Directed = nil // as if that backend were full
	if step := f.Admit(c, s); step != filter.Stop {
		t.Errorf("moved twice: step %d", step)
	}
	f.Done(c, s, &filter.Result{Unsent: relay.ErrGoAway})
	if step := f.Admit(c, s); step != filter.Again || c.Route.Directed == nil {
		t.Errorf("in the next attempt: step %d, directed %v", step, c.Route.Directed)
	}
}

// TestPinned: a pinned call does not move to another backend.
func TestPinned(t *testing.T) {
	t.Parallel()
	c := callTo(call.Invoke, call.Doc, legacyBackend, docBackend)
	c.Attempt.Translated, c.Pin.Backend = true, c.Endpoint
	if step := (protocol.Filter{}).Admit(c, &protocol.State{}); step != filter.Stop || c.Route.Directed != nil {
		t.Errorf("step %d, directed %v", step, c.Route.Directed)
	}
}

// A call in the doc dialect is translated for a legacy backend.
func Example() {
	c := callTo(call.Invoke, call.Doc, legacyBackend)
	protocol.Filter{}.Admit(c, &protocol.State{})
	fmt.Println(c.Attempt.Mode == dialect.Convert)
	// Output: true
}
