package gateway_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"testing"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

type usable = tools.Usable

// countedViews counts the evaluations of callers' tools, by tenant and user, and how many run at once.
type countedViews struct {
	usable
	mu         sync.Mutex
	looks      map[string]int
	now, most  map[string]int // of a tenant
	looked     chan string
	hold, held chan struct{} // if not nil, evaluations wait for hold
}

func (c *countedViews) Fingerprint(ctx context.Context, caller *tenant.Identity, hints func(string, string) byte) (
	sum [sha256.Size]byte, err error) {
	c.mu.Lock()
	hold := c.hold
	c.looks[caller.Tenant+" "+caller.User]++
	c.now[caller.Tenant]++
	c.most[caller.Tenant] = max(c.most[caller.Tenant], c.now[caller.Tenant])
	c.mu.Unlock()
	if hold != nil {
		c.held <- struct{}{}
		<-hold
	}
	sum, err = c.usable.Fingerprint(ctx, caller, hints)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[caller.Tenant]--
	c.looked <- caller.Tenant
	return sum, err
}

func (c *countedViews) of(caller string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks[caller]
}

// TestMCPStreamsShareAView: after a change, the tools of callers with the same view are evaluated once, however
// many streams they have, and only for callers whom the change may concern.
func TestMCPStreamsShareAView(t *testing.T) {
	t.Parallel()
	const streams = 12
	looks := &countedViews{looks: map[string]int{}, now: map[string]int{}, most: map[string]int{},
		looked: make(chan string, 100)}
	changes := new(tools.ViewChanges)
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = granted{}
		looks.usable, o.MCP.Usable, o.MCP.Changes = o.MCP.Usable, looks, changes
	})
	declare := func(names ...string) {
		var tools []manifest.Tool
		for _, name := range names {
			tools = append(tools, tool(t, name))
		}
		f.known.Replace(map[string]catalog.Declaration{"caps": {Manifest: &manifest.Manifest{Tools: tools},
			Policy: call.Allow},
			"other": {Manifest: &manifest.Manifest{Tools: tools}, Policy: call.Allow}})
	}
	open := func(credential string) *changeStream {
		s := f.listen(t, revisions[1], "Authorization", "Bearer "+credential)
		s.next(t)
		return s
	}
	var acme []*changeStream
	for range streams {
		acme = append(acme, open("acme k1 caps"))
	}
	globex := open("globex k1 other")
	if a, g := looks.of("acme "), looks.of("globex "); a != 1 || g != 1 {
		t.Errorf("%d evaluations for %d streams, %d for one", a, streams, g)
	}
	for len(looks.looked) > 0 {
		<-looks.looked
	}
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	declare(gatewaytest.Echo)
	changes.Send(tools.ViewChange{Tenant: "acme"})
	for _, s := range acme {
		if got := s.next(t); got != changed {
			t.Errorf("a stream of acme: %s", got)
		}
	}
	// if the first change led to an evaluation for globex, it would come before this one
	changes.Send(tools.ViewChange{Tenant: "acme"})
	check.Holds(t, "a further look", func() bool { return looks.of("acme ") == 3 })
	if g := looks.of("globex "); g != 1 {
		t.Errorf("after changes of acme: %d evaluations of the tools of globex", g)
	}
	changes.Send(tools.ViewChange{Capability: "other"})
	if got := globex.next(t); got != changed {
		t.Errorf("the stream of globex: %s", got)
	}
	if a, g := looks.of("acme "), looks.of("globex "); a != 3 || g != 2 {
		t.Errorf("after a change of a capability that acme does not see: %d evaluations, %d of globex", a, g)
	}
	for _, s := range acme {
		_ = s.resp.Body.Close()
	}
}

// TestMCPViewsOfManyUsers: a tenant's views are evaluated one at a time, beside those of another tenant.
func TestMCPViewsOfManyUsers(t *testing.T) {
	t.Parallel()
	looks := &countedViews{looks: map[string]int{}, now: map[string]int{}, most: map[string]int{},
		looked: make(chan string, 100), hold: make(chan struct{}), held: make(chan struct{}, 100)}
	f := startMCP(t, func(o *gatewaytest.Options) {
		o.Authenticator = granted{}
		looks.usable, o.MCP.Usable = o.MCP.Usable, looks
	})
	var opened sync.WaitGroup
	open := func(credential string) {
		opened.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.gateway.URL("/mcp"), http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Accept", "text/event-stream")
			req.Header.Set("Authorization", "Bearer "+credential)
			resp, err := f.gateway.HTTP1(t).Do(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("got %v %v", resp, err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	for _, grants := range []string{"caps", "a,caps", "b,caps", "c,caps", "d,caps"} {
		open("acme k1 " + grants) // each has another view
	}
	check.Received(t, looks.held, "a look of acme")
	open("globex k1 caps")
	check.Received(t, looks.held, "a look of globex, while acme's last")
	close(looks.hold)
	check.Ended(t, &opened, "the streams to begin")
	looks.mu.Lock()
	defer looks.mu.Unlock()
	if looks.most["acme"] != 1 {
		t.Errorf("%d concurrent evaluations for a tenant", looks.most["acme"])
	}
}

// TestFingerprintsOfHiddenTools: a tool that the caller may not use is not part of the fingerprint of its
// tools.
func TestFingerprintsOfHiddenTools(t *testing.T) {
	t.Parallel()
	known := catalog.New(catalog.Options{})
	decider, err := policy.New(policy.Options{Source: known, Timeout: check.Patience,
		Store: &ruled{rules: map[policy.Name]call.Verdict{on("caps", "hidden"): call.Block}}})
	check.Must(t, err)
	of := func(names ...string) [sha256.Size]byte {
		var tools []manifest.Tool
		for _, name := range names {
			tools = append(tools, tool(t, name))
		}
		known.Replace(map[string]catalog.Declaration{"caps": {Manifest: &manifest.Manifest{Tools: tools},
			Policy: call.Allow}})
		sum, err := listing.New(known, decider).Fingerprint(t.Context(), &tenant.Identity{Tenant: "default"},
			func(string, string) byte { return 0 })
		check.Must(t, err)
		return sum
	}
	if of("first", "hidden") != of("first") || of("first") == of("first", "last") {
		t.Error("the fingerprint depends on tools that the caller may not use")
	}
}
