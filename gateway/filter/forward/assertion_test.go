package forward_test

import (
	"net/http"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// asserting returns a call of ann whose fleet wants assertions.
func asserting(upstream *relay.Upstream) (*filter.Call, *filtertest.Stream) {
	c, stream := picked(call.Invoke, call.Doc)
	c.Fleet = filtertest.Fleet(router.FleetConfig{Backends: router.Addrs("a:1"), Assertion: &router.Assertion{}})
	c.Endpoint = c.Fleet.Backends[0]
	c.Endpoint.Attached = upstream
	c.Info.Tenant, c.Info.User, c.Info.Agent, c.RequestID = "acme", "ann", "planner", "r1"
	return c, stream
}

// TestCallers: an assertion has the caller of its call. A user counts as verified if a credential, a session or the
// listener vouches for it.
func TestCallers(t *testing.T) {
	t.Parallel()
	ann := assertion.Caller{Tenant: "acme", User: "ann", Agent: "planner", RequestID: "r1"}
	verified := ann
	verified.Verified = true
	keyed := verified
	keyed.Credential = "k1"
	for name, test := range map[string]struct {
		edit func(*filter.Call)
		want assertion.Caller
	}{
		"nothing vouches":    {func(*filter.Call) {}, ann},
		"a key":              {func(c *filter.Call) { c.Info.Key = "k1" }, keyed},
		"a person":           {func(c *filter.Call) { c.Principal.Person = &tenant.Person{} }, verified},
		"a tenant's port":    {func(c *filter.Call) { c.Client.At = &tenant.Listener{Tenant: "acme"} }, verified},
		"a user's port":      {func(c *filter.Call) { c.Client.At = &tenant.Listener{User: "ann"} }, verified},
		"a capability's":     {func(c *filter.Call) { c.Client.At = &tenant.Listener{Capability: "weather"} }, ann},
		"the gateway itself": {authenticate.Self, assertion.Caller{Gateway: true}},
	} {
		c, stream := asserting(&relay.Upstream{})
		test.edit(c)
		var got assertion.Caller
		sign := func(audience string, caller *assertion.Caller) (string, error) {
			got = *caller
			return "signed for " + audience, nil
		}
		forward.New(&seen{}, &seen{}, sign).Admit(c, &forward.State{})
		header, _ := stream.Header(assertion.Header)
		if got != test.want || header != "signed for weather" || c.Answer().Upstream == nil {
			t.Errorf("%s: %+v, %q", name, got, header)
		}
		if _, told := stream.Header(filter.CallerHeader); told {
			t.Errorf("%s: the backend receives the caller unsigned", name)
		}
	}
}

// TestUnsigned: a call that needs an assertion is rejected while the gateway cannot sign. Code in the process that
// stands for a backend signs its requests itself.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	for name, sign := range map[string]assertion.Sign{"off": nil,
		"no key": func(string, *assertion.Caller) (string, error) { return "", assertion.ErrNoKey }} {
		told := &seen{}
		c, _ := asserting(&relay.Upstream{})
		forward.New(told, told, sign).Admit(c, &forward.State{})
		refusal := c.Answer().Refusal
		if refusal == nil || refusal.Reason != "ASSERTION_UNAVAILABLE" || told.begun > 0 {
			t.Errorf("%s: %v, %d begun", name, refusal, told.begun)
		}
	}
	r := relay.New(relay.Config{}, nil, http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	c, stream := asserting(r.NewUpstream(relay.UpstreamConfig{Serve: func(*relay.ServerStream) relay.Status {
		return relay.Status{}
	}}))
	forward.New(&seen{}, &seen{}, nil).Admit(c, &forward.State{})
	text, _ := stream.Header(filter.CallerHeader)
	caller, err := assertion.Decode(text)
	if err != nil || caller.User != "ann" || c.Answer().Upstream == nil {
		t.Errorf("%q, %v", text, err)
	}
}
