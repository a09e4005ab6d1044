package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// offer is the current response of a capability's discovery tool.
type offer struct {
	mu      sync.Mutex
	answer  string
	failure string
	err     error
}

func (o *offer) set(answer, failure string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer, o.failure, o.err = answer, failure, err
}

func (o *offer) lists() ([]byte, string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return []byte(o.answer), o.failure, o.err
}

// listed is one tool in an offer.
func listed(name, description, recommended string) string {
	return fmt.Sprintf(`{"name": %q, "description": %q, "input_schema": {"type": "object"}, "recommended_policy": %q}`,
		name, description, recommended)
}

func offering(tools ...string) string { return "[" + strings.Join(tools, ",") + "]" }

// discoveryGateway is a gateway that shares a Redis and discovers the tools of a capability.
type discoveryGateway struct {
	gateway    *gatewaytest.Gateway
	catalog    *catalog.Catalog
	discoverer *catalog.Discoverer
	rules      policy.Rules
	stop       func() // stops its discoveries
}

func discover(t *testing.T, redis *gatewaytest.Redis, interval time.Duration, backend string) *discoveryGateway {
	t.Helper()
	store := redis.Open(t)
	d := &discoveryGateway{rules: store.Policies()}
	d.catalog = catalog.New(catalog.Options{Store: store.Catalog(), Rules: store.Policies(),
		Round: 20 * time.Millisecond})
	d.catalog.Replace(map[string]catalog.Declaration{"caps": {
		Manifest:  &manifest.Manifest{ID: "caps", Dynamic: true, DiscoveryTool: gatewaytest.List},
		Discovery: catalog.Discovery{Interval: interval, Timeout: check.Patience},
	}})
	d.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend}}},
		Policy: policy.Options{Source: d.catalog, Store: store.Policies(), Timeout: check.Patience},
	})
	d.discoverer = catalog.NewDiscoverer(d.catalog, d.gateway.AskForTools)
	d.catalog.Read(t.Context())
	var following, approvalGateway sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	asks, stop := context.WithCancel(ctx)
	following.Go(func() { d.catalog.Run(ctx) })
	approvalGateway.Go(func() { d.discoverer.Run(asks) })
	d.stop = func() { stop(); check.Ended(t, &approvalGateway, "the discoverer to stop") }
	check.Cleanup(t, func() {
		cancel()
		check.Ended(t, &approvalGateway, "the discoverer to stop")
		check.Ended(t, &following, "the catalog to stop")
	})
	d.discoverer.Healthy("caps", true)
	return d
}

// tools returns the known names; those that have drifted end in "!".
func (d *discoveryGateway) tools() string {
	tools, known := d.catalog.Tools("caps")
	if !known {
		return "unknown"
	}
	var names []string
	for i := range tools {
		name := tools[i].Name
		if tools[i].Drifted {
			name += "!"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// await waits until the known tools are as given.
func (d *discoveryGateway) await(t *testing.T, want string) {
	t.Helper()
	check.Until(t, "the tools", func() (bool, string) {
		got := d.tools()
		return got == want, fmt.Sprintf("known are %q, want %q", got, want)
	})
}

func (d *discoveryGateway) now(t *testing.T) error {
	t.Helper()
	return d.discoverer.Discover(t.Context(), "caps")
}

// TestToolsComeAndGo: when a real backend changes its tools, the lists of callers, the rules and the policies
// follow.
func TestToolsComeAndGo(t *testing.T) {
	t.Parallel()
	redis, offer, c := gatewaytest.StartRedis(t), &offer{}, gatewaytest.NewCapability("b1")
	c.Lists = offer.lists
	offer.set(offering(listed(gatewaytest.Echo, "repeats", "allow"), listed(gatewaytest.Fail, "fails", "ask")), "", nil)
	backend := c.Serve(t, call.Doc)
	a := discover(t, redis, time.Hour, backend.Addr)
	b := discover(t, redis, time.Hour, backend.Addr)
	a.await(t, "echo fail")
	b.await(t, "echo fail")
	seen := c.Seen()
	if len(seen) != 1 {
		t.Fatalf("discovered %d times", len(seen))
	}
	req := seen[0].Request
	if !strings.HasPrefix(req.GetSessionId(), "discovery-caps-") || len(req.GetSessionId()) != len("discovery-caps-")+
		36 || req.GetThreadId() != "tool-discovery" || string(req.GetArgsJson()) != "{}" ||
		req.GetCapabilityId() != "caps" {
		t.Errorf("the discovery tool got %v", req)
	}
	client := gatewaytest.NewClient(b.gateway.Conn(t), call.Doc)
	check := func(when, tool string, code codes.Code) {
		t.Helper()
		if _, err := client.Invoke(t.Context(), request(tool, `{}`)); status.Code(err) != code {
			t.Errorf("%s, %s: %v", when, tool, err)
		}
	}
	check("at first", gatewaytest.Echo, codes.OK)
	check("at first", gatewaytest.Fail, codes.FailedPrecondition)
	check("at first", gatewaytest.List, codes.OK) // the orchestrator lists them too
	check("at first", gatewaytest.Mute, codes.PermissionDenied)

	for _, r := range []policy.Rule{
		{Tenant: "default", Name: policy.Name{User: "ann", Capability: "caps", Tool: gatewaytest.Fail},
			Verdict: call.Allow},
		{Tenant: "", Name: policy.Name{Capability: "caps", Tool: gatewaytest.Fail}, Verdict: call.Allow},
		{Tenant: "default", Name: policy.Name{Capability: "caps", Tool: gatewaytest.Echo}, Verdict: call.Allow},
	} {
		if err := a.rules.Set(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	// One tool is gone, one is new, one has changed.
	offer.set(offering(listed(gatewaytest.Echo, "repeats, and sends it elsewhere", "allow"),
		listed("new", "is new", "allow")), "", nil)
	if err := b.now(t); err != nil {
		t.Fatal(err)
	}
	b.await(t, "echo! new")
	a.await(t, "echo! new")
	check("changed", gatewaytest.Echo, codes.FailedPrecondition)
	var left []string
	for _, tenant := range []string{"", "default"} {
		rules, _, err := a.rules.List(t.Context(), tenant, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			left = append(left, r.Tenant+" "+r.Tool)
		}
	}
	if !slices.Equal(left, []string{"default echo"}) {
		t.Errorf("rules that are left: %q", left)
	}
	tool, _ := a.catalog.Describe("caps", gatewaytest.Echo)
	if err := a.catalog.Accept(t.Context(), "caps", gatewaytest.Echo, tool.Hash); err != nil {
		t.Fatal(err)
	}
	b.await(t, "echo new")
	check("accepted", gatewaytest.Echo, codes.OK)
	// A tool that reappears has no rules, and is compared with its earlier version.
	offer.set(offering(listed(gatewaytest.Fail, "fails otherwise", "ask")), "", nil)
	if err := b.now(t); err != nil {
		t.Fatal(err)
	}
	b.await(t, "fail!")
	check("back again", gatewaytest.Fail, codes.FailedPrecondition)
}

// TestAToolIsLeftOutAndComesBack: rules for any tool allow neither a tool that a discovery omitted, nor one that
// reappears changed: it requires approval at each replica, including those that started later.
func TestAToolIsLeftOutAndComesBack(t *testing.T) {
	t.Parallel()
	redis, offer, c := gatewaytest.StartRedis(t), &offer{}, gatewaytest.NewCapability("b1")
	c.Lists = offer.lists
	repeats := listed(gatewaytest.Echo, "repeats", "allow")
	offer.set(offering(repeats, listed("new", "is new", "allow")), "", nil)
	backend := c.Serve(t, call.Doc)
	a := discover(t, redis, time.Hour, backend.Addr)
	for _, r := range []policy.Rule{
		{Tenant: "default", Name: policy.Name{Capability: "caps", Tool: policy.Any}, Verdict: call.Allow},
		{Tenant: "", Name: policy.Name{Capability: policy.Any, Tool: policy.Any}, Verdict: call.Allow},
	} {
		if err := a.rules.Set(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	b := discover(t, redis, time.Hour, backend.Addr)
	check := func(when string, code codes.Code, all ...*discoveryGateway) {
		t.Helper()
		for i, d := range all {
			_, err := gatewaytest.NewClient(d.gateway.Conn(t), call.Doc).Invoke(t.Context(),
				request(gatewaytest.Echo, `{}`))
			if status.Code(err) != code {
				t.Errorf("%s, at replica %d: %v", when, i, err)
			}
		}
	}
	to := func(tools, want string, all ...*discoveryGateway) {
		t.Helper()
		offer.set(tools, "", nil)
		if err := a.now(t); err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			d.await(t, want)
		}
	}
	a.await(t, "echo new")
	b.await(t, "echo new")
	check("at first", codes.OK, a, b)
	to(offering(listed("new", "is new", "allow")), "new", a, b)
	check("left out", codes.PermissionDenied, a, b)
	to(offering(listed("new", "is new", "allow")), "new", a, b) // once more: the tool stays absent
	changed := listed(gatewaytest.Echo, "repeats, and sends it elsewhere", "allow")
	to(offering(changed, listed("new", "is new", "allow")), "echo! new", a, b)
	check("back, and changed", codes.FailedPrecondition, a, b)
	fresh := discover(t, redis, time.Hour, backend.Addr)
	fresh.await(t, "echo! new")
	check("at a replica that starts", codes.FailedPrecondition, fresh)
	to(offering(repeats, listed("new", "is new", "allow")), "echo new", a, b, fresh)
	check("back as it was", codes.OK, a, b, fresh)
	to(offering(listed("new", "is new", "allow")), "new", a, b, fresh)
	named := policy.Rule{Tenant: "default", Name: policy.Name{Capability: "caps", Tool: gatewaytest.Echo},
		Verdict: call.Allow}
	if err := a.rules.Set(t.Context(), named); err != nil {
		t.Fatal(err)
	}
	check("left out, and a rule names it", codes.OK, discover(t, redis, time.Hour, backend.Addr))
}

// TestABadDiscoveryChangesNothing: a failed discovery stops after exactly two attempts, changes nothing, and
// reports its reason without secrets.
func TestABadDiscoveryChangesNothing(t *testing.T) {
	t.Parallel()
	redis, offer, c := gatewaytest.StartRedis(t), &offer{}, gatewaytest.NewCapability("b1")
	c.Lists = offer.lists
	good := offering(listed(gatewaytest.Echo, "repeats", "allow"))
	offer.set(good, "", nil)
	d := discover(t, redis, time.Hour, c.Serve(t, call.Doc).Addr)
	d.await(t, "echo")
	for name, bad := range map[string]struct {
		answer, failure string
		err             error
	}{
		"a tool error":     {good, "password=secret", nil},
		"a gRPC error":     {"", "", status.Error(codes.Internal, "password=secret")},
		"no answer":        {"", "", nil},
		"no JSON":          {"secret", "", nil},
		"an object":        {`{"tools": ` + good + `}`, "", nil},
		"a bad schema":     {`[{"name": "x", "description": "y", "input_schema": "secret"}]`, "", nil},
		"no description":   {`[{"name": "x", "input_schema": {}}]`, "", nil},
		"a name twice":     {offering(listed("x", "y", "allow"), listed("x", "z", "ask")), "", nil},
		"one bad of many":  {offering(listed("x", "y", "allow"), `{"name": "a b"}`), "", nil},
		"two names in one": {`[{"name": "x", "name": "y", "description": "z", "input_schema": {}}]`, "", nil},
	} {
		offer.set(bad.answer, bad.failure, bad.err)
		before := len(c.Seen())
		err := d.now(t)
		if err == nil {
			t.Errorf("%s: the bad discovery was accepted", name)
			continue
		}
		if n := len(c.Seen()) - before; n != 2 {
			t.Errorf("%s: discovered %d times", name, n)
		}
		l, _ := d.catalog.Inspect("caps")
		if d.tools() != "echo" || l.Last.Error == "" || l.Last.Succeeded.IsZero() || l.Last.Failed.IsZero() ||
			strings.Contains(l.Last.Error, "password") {
			t.Errorf("%s: %q, %+v", name, d.tools(), l.Last)
		}
	}
	offer.set(good, "", nil)
	if err := d.now(t); err != nil {
		t.Error(err)
	}
	if l, _ := d.catalog.Inspect("caps"); l.Last.Error != "" {
		t.Errorf("got %+v", l.Last)
	}
}

// TestOneReplicaDiscovers: one replica discovers the tools, and another takes over when it is gone.
func TestOneReplicaDiscovers(t *testing.T) {
	t.Parallel()
	redis, offer, c := gatewaytest.StartRedis(t), &offer{}, gatewaytest.NewCapability("b1")
	c.Lists = offer.lists
	offer.set(offering(listed(gatewaytest.Echo, "repeats", "allow")), "", nil)
	backend := c.Serve(t, call.Doc)
	a := discover(t, redis, 300*time.Millisecond, backend.Addr)
	a.await(t, "echo")
	b := discover(t, redis, 300*time.Millisecond, backend.Addr)
	b.await(t, "echo")
	a.stop()
	offer.set(offering(listed(gatewaytest.Echo, "repeats", "allow"), listed("new", "is new", "ask")), "", nil)
	b.await(t, "echo new")
	a.await(t, "echo new") // which only listens
}

// TestDiscoveryGivesCallersNoPrivilege: a caller that calls the discovery tool with the gateway's arguments is an
// ordinary caller. A rule that blocks the tool does not block the gateway.
func TestDiscoveryGivesCallersNoPrivilege(t *testing.T) {
	t.Parallel()
	redis, offer, c := gatewaytest.StartRedis(t), &offer{}, gatewaytest.NewCapability("b1")
	c.Lists = offer.lists
	offer.set(offering(listed(gatewaytest.Echo, "repeats", "allow")), "", nil)
	d := discover(t, redis, time.Hour, c.Serve(t, call.Doc).Addr)
	d.await(t, "echo")
	req := c.Seen()[0].Request
	client := gatewaytest.NewClient(d.gateway.Conn(t), call.Doc)
	if err := d.rules.Set(t.Context(), policy.Rule{Tenant: "default",
		Name: policy.Name{Capability: "caps", Tool: gatewaytest.List}, Verdict: call.Block}); err != nil {
		t.Fatal(err)
	}
	if err := d.now(t); err != nil {
		t.Errorf("the gateway's own: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capgate-ticket", "forged")
	if _, err := client.Invoke(ctx, req); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v", err)
	}
}
