package authenticate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/authenticate"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

// store accepts one credential, which it may have in its cache.
type store struct {
	cached bool
	asked  chan tenant.Credentials
}

var (
	ann     = tenant.Identity{Tenant: "acme", User: "ann", Key: "k1", Scopes: tenant.Invoke}
	unknown = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID"}
)

func (s *store) Lookup(c tenant.Credentials) (tenant.Identity, bool, *call.Refusal) {
	if !s.cached {
		return tenant.Identity{}, false, nil
	}
	if c.Credential != "cg_good" {
		return tenant.Identity{}, true, unknown
	}
	return ann, true, nil
}

func (s *store) Authenticate(ctx context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	select {
	case s.asked <- c:
	case <-ctx.Done():
	}
	if c.Credential != "cg_good" {
		return tenant.Identity{}, unknown
	}
	return ann, nil
}

func newFilter(t testing.TB, s *store, told func(*relay.Peer)) authenticate.Filter {
	callers := authenticate.NewCallers(s, nil)
	t.Cleanup(callers.Close)
	return authenticate.New(authenticate.Config{Callers: callers, Authenticated: told})
}

func reason(c *filter.Call) string {
	if r := c.Answer().Refusal; r != nil {
		return r.Reason
	}
	return ""
}

// TestCredentials: a call has at most one credential, which is not forwarded, whether it is valid or not.
func TestCredentials(t *testing.T) {
	t.Parallel()
	empty := map[string]bool{"another scheme": true, "an empty token": true, "an empty key": true}
	for name, test := range map[string]struct {
		headers []string
		reason  string
	}{
		"a bearer token":    {[]string{"authorization", "Bearer cg_good"}, ""},
		"an API key":        {[]string{"x-api-key", "cg_good"}, ""},
		"the same in both":  {[]string{"authorization", "Bearer cg_good", "x-api-key", "cg_good"}, ""},
		"another":           {[]string{"authorization", "Bearer cg_bad"}, "CREDENTIAL_INVALID"},
		"another scheme":    {[]string{"authorization", "Basic good"}, "CREDENTIAL_INVALID"},
		"an empty token":    {[]string{"authorization", "Bearer"}, "CREDENTIAL_INVALID"},
		"an empty key":      {[]string{"x-api-key", ""}, "CREDENTIAL_INVALID"},
		"none":              {nil, "CREDENTIAL_MISSING"},
		"two keys":          {[]string{"x-api-key", "cg_good", "x-api-key", "cg_bad"}, "CREDENTIAL_INVALID"},
		"a key and a token": {[]string{"authorization", "Bearer cg_good", "x-api-key", "cg_bad"}, "CREDENTIAL_INVALID"},
		"another's key":     {[]string{"x-api-key", "sk-other"}, "CREDENTIAL_INVALID"},
		"another's besides": {[]string{"authorization", "Bearer cg_good", "x-api-key", "sk-other"}, ""},
		"two users": {[]string{"x-api-key", "cg_good", "x-user-id", "ann", "x-user-id", "bob"},
			filter.TwoIdentities.Reason},
		"a signature beside it":  {[]string{"x-api-key", "cg_good", "x-capgate-signature", "s"}, "CREDENTIAL_INVALID"},
		"a signature of nothing": {[]string{"x-capgate-signature", "s"}, tenant.RefuseSignature().Reason},
	} {
		told := 0
		f := newFilter(t, &store{cached: true}, func(*relay.Peer) { told++ })
		c, stream := filtertest.NewCall(test.headers...)
		step := f.Admit(c, &authenticate.State{})
		if good := test.reason == ""; reason(c) != test.reason || good != (step == filter.Continue) ||
			good != (told == 1) {
			t.Errorf("%s: step %d, %q, %d times told", name, step, reason(c), told)
		}
		if test.reason == "" && (c.Info.Tenant != "acme" || c.Info.User != "ann" || c.Info.Key != "k1" ||
			c.Credential.Scopes != tenant.Invoke) {
			t.Errorf("%s: %+v", name, c.Info)
		}
		if r := c.Answer().Refusal; empty[name] != (r != nil &&
			strings.Contains(r.Message, "an empty credential")) {
			t.Errorf("%s: %+v", name, r)
		}
		for _, header := range []string{"authorization", "x-api-key"} {
			if _, left := stream.Header(header); left {
				t.Errorf("%s: the backend gets %s", name, header)
			}
		}
	}
}

// TestLookup: a call waits if its credential is not cached, and then has the result of the lookup.
func TestLookup(t *testing.T) {
	t.Parallel()
	for credential, want := range map[string]string{"cg_good": "", "cg_bad": "CREDENTIAL_INVALID"} {
		s := &store{asked: make(chan tenant.Credentials, 1)}
		f := newFilter(t, s, nil)
		c, stream := filtertest.NewCall("x-api-key", credential, "x-agent-id", "bot")
		state := &authenticate.State{}
		if step := f.Admit(c, state); step != filter.Wait {
			t.Fatalf("step %d", step)
		}
		if asked := check.Received(t, s.asked, "the question"); asked.Credential != credential ||
			asked.Agent != "bot" {
			t.Errorf("the store was asked for %+v", asked)
		}
		check.Received(t, stream.Resumed, "the resumption")
		f.Admit(c, state)
		if reason(c) != want {
			t.Errorf("%s: %q", credential, reason(c))
		}
		f.Done(c, state, &filter.Result{Final: true})
	}
}

// TestArrival: a call whose caller a front door has authenticated is not authenticated again.
func TestArrival(t *testing.T) {
	t.Parallel()
	f := newFilter(t, &store{}, nil)
	c, _ := filtertest.NewCall("x-api-key", "cg_bad")
	step := f.Admit(c, &authenticate.State{Inherited: &authenticate.Inherited{Identity: ann}})
	if step != filter.Continue || c.Info.Key != "k1" {
		t.Errorf("step %d, %+v", step, c.Info)
	}
	c, _ = filtertest.NewCall()
	if f.Admit(c, &authenticate.State{Inherited: &authenticate.Inherited{Refusal: unknown}}); reason(
		c) != unknown.Reason {
		t.Errorf("%q", reason(c))
	}
}

// TestWait: a front door can wait for a lookup.
func TestWait(t *testing.T) {
	t.Parallel()
	callers := authenticate.NewCallers(&store{asked: make(chan tenant.Credentials, 1)}, nil)
	defer callers.Close()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	if who, refusal := callers.Wait(ctx, "10.0.0.1", tenant.Credentials{Credential: "cg_good"}); refusal != nil ||
		who.Tenant != "acme" {
		t.Errorf("%+v, %v", who, refusal)
	}
}

// TestSettingsLeadToMetrics: a tenant's settings hold the metrics that its last call found. A call without settings
// looks them up itself.
func TestSettingsLeadToMetrics(t *testing.T) {
	t.Parallel()
	first, second := new(telemetry.TenantMetrics), new(telemetry.TenantMetrics)
	var lasts []*telemetry.TenantMetrics
	found := first
	callers := authenticate.NewCallers(nil, nil)
	defer callers.Close()
	f := authenticate.New(authenticate.Config{Callers: callers,
		Metrics: func(last *telemetry.TenantMetrics, id string) *telemetry.TenantMetrics {
			if id != "acme" {
				t.Errorf("the metrics of %q", id)
			}
			lasts = append(lasts, last)
			return found
		}})
	settings := &tenant.Settings{ID: "acme"}
	for i, of := range []*tenant.Settings{settings, settings, settings, nil} {
		if i > 0 {
			found = second
		}
		c, _ := filtertest.NewCall()
		f.Admit(c, &authenticate.State{Inherited: &authenticate.Inherited{
			Identity: tenant.Identity{Tenant: "acme", Settings: of}}})
		if c.Principal.Metrics != found {
			t.Errorf("call %d has other metrics", i)
		}
	}
	if want := []*telemetry.TenantMetrics{nil, first, second, nil}; !slices.Equal(lasts, want) {
		t.Errorf("earlier metrics %p, not %p", lasts, want)
	}
}

// Example: without tenants, every call belongs to the default tenant, and credentials are ignored.
func Example() {
	callers := authenticate.NewCallers(nil, nil)
	defer callers.Close()
	c, _ := filtertest.NewCall("x-user-id", "ann")
	authenticate.New(authenticate.Config{Callers: callers}).Admit(c, &authenticate.State{})
	fmt.Println(c.Info.Tenant, c.Info.User)
	// Output: default ann
}
