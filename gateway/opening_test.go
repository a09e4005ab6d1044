package gateway

import (
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router/affinity"
)

// openingFilter notes the state with which Done is called.
type openingFilter struct{ done *authorize.State }

func (openingFilter) Admit(c *filter.Call, s *authorize.State) filter.Step {
	s.Asking, c.Info.Tool, c.RequestID = &call.Asking{}, "forecast", c.Keep("r-1")
	c.Pin.Pinned, c.Redeemed = &affinity.Pinned{}, filter.CallOver
	return c.Forward(&relay.Upstream{})
}

func (f openingFilter) Done(c *filter.Call, s *authorize.State, _ *filter.Result) { *f.done = *s }

// started returns a call that was forwarded, with its stream.
func started(h *handler, f openingFilter) (*callState, *relay.Stream) {
	s := &relay.Stream{}
	t := newCallState()
	s.Value, t.Stream = t, relayed{s}
	h.driver.begin(t, h.driver.list("test", bind("opening", f)))
	return t, s
}

// TestOpeningIsReleased: from the start of its response, a call holds nothing of what only its decision needed. The
// rest is available at its end, and the filters' Done receives the zero state. The memory starts the next call empty.
func TestOpeningIsReleased(t *testing.T) {
	t.Parallel()
	h := &handler{driver: newDriver(status.NewCache())}
	h.driver.stream = func(*callState) stream { return &fakeStream{} }
	last := authorize.State{Asking: &call.Asking{}}
	c, s := started(h, openingFilter{&last})
	o := c.opening
	h.Started(s)
	if c.opening != nil || c.Opening != nil || o.Redeemed != nil || o.authorize.Asking != nil {
		t.Errorf("the call has %v; the opening has %v", c.opening, o.Redeemed)
	}
	if c.Info.Tool != "forecast" || c.RequestID != "r-1" {
		t.Errorf("the tool is %q, the id %q", c.Info.Tool, c.RequestID)
	}
	h.Done(s, &relay.Result{})
	if last.Asking != nil {
		t.Error("Done has received the state of the opening")
	}
	if c.opening == nil || c.Opening != &c.opening.Opening || c.Redeemed != nil || c.RequestID != "" {
		t.Errorf("the next call starts with %v, id %q", c.opening, c.RequestID)
	}
}

// TestOpeningOfServedCalls: a call that code in the process serves continues after the start of its response.
func TestOpeningOfServedCalls(t *testing.T) {
	t.Parallel()
	h := &handler{driver: newDriver(status.NewCache())}
	h.driver.stream = func(*callState) stream { return &fakeStream{} }
	c, s := started(h, openingFilter{&authorize.State{}})
	c.walk.serving = &serving{Served: &filter.Served{}, stream: relayed{s}}
	h.Started(s)
	if c.opening == nil || c.Redeemed == nil {
		t.Error("the opening is released")
	}
}
