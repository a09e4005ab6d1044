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

// signer is a Signer. It records the last caller.
type signer struct {
	missing bool // it has no key
	got     assertion.Caller
}

func (s *signer) Ready() bool { return !s.missing }

func (s *signer) Sign(audience string, caller *assertion.Caller) (string, error) {
	if s.missing {
		return "", assertion.ErrNoKey
	}
	s.got = *caller
	return "signed for " + audience, nil
}

// TestCallers: an assertion has the caller of its call. A user counts as verified if a credential, a session or the
// listener vouches for it. A user that an operator has entered does not.
func TestCallers(t *testing.T) {
	t.Parallel()
	ann := assertion.Caller{Tenant: "acme", User: "ann", Agent: "planner", RequestID: "r1"}
	verified := ann
	verified.Verified = true
	keyed := verified
	keyed.Credential = "k1"
	operated := ann
	like := verified
	like.Credential = tenant.OperatorKey + "eve"
	operated.Operator = "eve, issuer corp"
	for name, test := range map[string]struct {
		edit func(*filter.Call)
		want assertion.Caller
	}{
		"nothing vouches": {func(*filter.Call) {}, ann},
		"a key":           {func(c *filter.Call) { c.Info.Key = "k1" }, keyed},
		"a person":        {func(c *filter.Call) { c.Principal.Person = &tenant.Person{} }, verified},
		"an operator": {func(c *filter.Call) {
			c.Info.Key, c.Principal.Operator = tenant.OperatorKey+"eve, issuer corp", true
		}, operated},
		"a key with an operator's name": {func(c *filter.Call) { c.Info.Key = tenant.OperatorKey + "eve" }, like},
		"a tenant's port": {func(c *filter.Call) {
			c.Client.At = &tenant.Listener{Tenant: "acme", Asserts: tenant.User}
		}, ann},
		"a user's port":      {func(c *filter.Call) { c.Client.At = &tenant.Listener{User: "ann"} }, verified},
		"a capability's":     {func(c *filter.Call) { c.Client.At = &tenant.Listener{Capability: "weather"} }, ann},
		"the gateway itself": {authenticate.Self, assertion.Caller{Gateway: true}},
	} {
		c, stream := asserting(&relay.Upstream{})
		test.edit(c)
		signs := &signer{}
		forward.New(&seen{}, &seen{}, signs).Admit(c, &forward.State{})
		header, _ := stream.Header(assertion.Header)
		if signs.got != test.want || header != "signed for weather" || c.Answer().Upstream == nil {
			t.Errorf("%s: %+v, %q", name, signs.got, header)
		}
		if _, told := stream.Header(filter.CallerHeader); told {
			t.Errorf("%s: the backend receives the caller unsigned", name)
		}
	}
}

// TestUnsigned: a call that needs an assertion is rejected while the gateway cannot sign, also if code in the process
// stands for the backend. With a key, that code signs its requests itself.
func TestUnsigned(t *testing.T) {
	t.Parallel()
	r := relay.New(relay.Config{}, nil, http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	local := r.NewUpstream(relay.UpstreamConfig{Serve: func(*relay.ServerStream) relay.Status {
		return relay.Status{}
	}})
	for name, upstream := range map[string]*relay.Upstream{"relayed": {}, "local": local} {
		for _, signs := range []forward.Signer{nil, &signer{missing: true}} {
			told := &seen{}
			c, stream := asserting(upstream)
			forward.New(told, told, signs).Admit(c, &forward.State{})
			refusal := c.Answer().Refusal
			_, has := stream.Header(filter.CallerHeader)
			if refusal == nil || refusal.Reason != "ASSERTION_UNAVAILABLE" || told.begun > 0 || has {
				t.Errorf("%s, %v: %v, %d begun, %t", name, signs, refusal, told.begun, has)
			}
		}
	}
	c, stream := asserting(local)
	signs := &signer{}
	forward.New(&seen{}, &seen{}, signs).Admit(c, &forward.State{})
	text, _ := stream.Header(filter.CallerHeader)
	caller, err := assertion.Decode(text)
	if err != nil || caller.User != "ann" || c.Answer().Upstream == nil || signs.got.User != "" {
		t.Errorf("%q, %v", text, err)
	}
}
