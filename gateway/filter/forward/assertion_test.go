package forward_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/filter/forward"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
)

// asserting returns a call of ann whose fleet requires assertions.
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
	missing bool // the signer has no key
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

// admitted is a Queue without waiting calls.
type admitted struct{}

func (admitted) WaitAgain(ctx context.Context, _ string) error { return ctx.Err() }

// admit admits a call, also after it has waited for its signature.
func admit(t *testing.T, told *seen, c *filter.Call, stream *filtertest.Stream, signs forward.Signer) {
	t.Helper()
	a := forward.NewAssertions(signs, admitted{}, fairshare.New("signed", 1<<20))
	defer a.Close()
	f, s := forward.New(told, told, a), &forward.State{}
	if f.Admit(c, s) == filter.Wait {
		check.Received(t, stream.Resumed, "the signature")
		f.Admit(c, s)
	}
}

// gate is a Queue and a Signer that wait.
type gate struct {
	signer
	begun  chan struct{}
	open   chan struct{}
	waited string // the tenant of the last call, read after the wait
}

func (g *gate) WaitAgain(ctx context.Context, tenant string) error {
	g.begun <- struct{}{}
	select {
	case <-g.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.waited = strings.Clone(tenant)
	return nil
}

// TestSignaturesOutliveCalls: a signature holds a copy of the tenant, because a call's strings are overwritten when it
// ends.
func TestSignaturesOutliveCalls(t *testing.T) {
	t.Parallel()
	signs := &gate{begun: make(chan struct{}, 1), open: make(chan struct{})}
	a := forward.NewAssertions(signs, signs, fairshare.New("signed", 1<<20))
	c, stream := asserting(&relay.Upstream{})
	words := []byte("acme")
	c.Info.Tenant = filter.View(words)
	forward.New(&seen{}, &seen{}, a).Admit(c, &forward.State{})
	check.Received(t, signs.begun, "the goroutine of the signature")
	copy(words, "evil")
	close(signs.open)
	check.Received(t, stream.Resumed, "the signature")
	a.Close()
	if signs.waited != "acme" || signs.got.Tenant != "acme" {
		t.Errorf("waited for %q, signed for %q", signs.waited, signs.got.Tenant)
	}
}

// TestSignaturesAreMadeElsewhere: Admit does not sign. A call that has ended is not signed, and its memory is released.
func TestSignaturesAreMadeElsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ ends, closes bool }{
		"the call goes on": {}, "the call ends": {ends: true}, "the gateway closes": {closes: true},
	} {
		signs, memory := &gate{begun: make(chan struct{}, 1), open: make(chan struct{})}, fairshare.New("signed", 1<<20)
		a := forward.NewAssertions(signs, signs, memory)
		c, stream := asserting(&relay.Upstream{})
		f, s := forward.New(&seen{}, &seen{}, a), &forward.State{}
		if step := f.Admit(c, s); step != filter.Wait || !stream.Waits() {
			t.Fatalf("%s: %v, waits %t", name, step, stream.Waits())
		}
		check.Received(t, signs.begun, "the goroutine of the signature")
		if memory.Used() == 0 {
			t.Errorf("%s: a call that waits holds nothing", name)
		}
		switch {
		case test.ends:
			stream.End()
			f.Done(c, s, &filter.Result{})
		case test.closes:
			a.Close()
		default:
			close(signs.open)
		}
		if !test.ends {
			check.Received(t, stream.Resumed, "the end of the wait")
			f.Admit(c, s)
		}
		a.Close()
		signed, _ := stream.Header(assertion.Header)
		over := test.ends || test.closes
		if forwarded := c.Answer().Upstream != nil; forwarded != (signed != "") || forwarded == over {
			t.Errorf("%s: %q, forwarded %t", name, signed, forwarded)
		}
		if signs.got.User != "" && over || memory.Used() != 0 {
			t.Errorf("%s: signed for %+v, %d bytes held", name, signs.got, memory.Used())
		}
	}
}

// TestSignaturesTakeMemory: a call waits for its signature only if its tenant has memory left.
func TestSignaturesTakeMemory(t *testing.T) {
	t.Parallel()
	a := forward.NewAssertions(&signer{}, admitted{}, fairshare.New("signed", 1<<10))
	defer a.Close()
	c, stream := asserting(&relay.Upstream{})
	forward.New(&seen{}, &seen{}, a).Admit(c, &forward.State{})
	if c.Answer().Refusal == nil || c.Shed != overload.Pools || stream.Waits() {
		t.Errorf("%v, shed %q, waits %t", c.Answer().Refusal, c.Shed, stream.Waits())
	}
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
		"a person":        {func(c *filter.Call) { c.Credential.Person = &tenant.Person{} }, verified},
		"an operator": {func(c *filter.Call) {
			c.Info.Key, c.Credential.Operator = tenant.OperatorKey+"eve, issuer corp", true
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
		admit(t, &seen{}, c, stream, signs)
		header, _ := stream.Header(assertion.Header)
		if signs.got != test.want || header != "signed for weather" || c.Answer().Upstream == nil {
			t.Errorf("%s: %+v, %q", name, signs.got, header)
		}
		if _, told := stream.Header(filter.CallerHeader); told {
			t.Errorf("%s: the backend receives the caller unsigned", name)
		}
	}
}

// TestUnsigned: a call that requires an assertion is rejected while the gateway cannot sign, even if code in the
// process serves as the backend. Once there is a key, such code signs its own requests.
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
			admit(t, told, c, stream, signs)
			refusal := c.Answer().Refusal
			_, has := stream.Header(filter.CallerHeader)
			if refusal == nil || refusal.Reason != "ASSERTION_UNAVAILABLE" || told.begun > 0 || has {
				t.Errorf("%s, %v: %v, %d begun, %t", name, signs, refusal, told.begun, has)
			}
		}
	}
	c, stream := asserting(local)
	signs := &signer{}
	admit(t, &seen{}, c, stream, signs)
	text, _ := stream.Header(filter.CallerHeader)
	caller, err := assertion.Decode(text)
	if err != nil || caller.User != "ann" || c.Answer().Upstream == nil || signs.got.User != "" {
		t.Errorf("%q, %v", text, err)
	}
}
