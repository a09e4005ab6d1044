package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// updating is a server whose resources change.
type updating struct {
	*remote
	mu         sync.Mutex
	subscribed map[[2]string]bool // sessions and the URIs to which they have subscribed
}

func newUpdating(t *testing.T, old bool) *updating {
	t.Helper()
	u := &updating{remote: newRemote(t, old), subscribed: map[[2]string]bool{}}
	u.mcp = sdk.NewServer(&sdk.Implementation{Name: "remote", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler: func(_ context.Context, q *sdk.SubscribeRequest) error {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.subscribed[[2]string{q.Session.ID(), q.Params.URI}] = true
			return nil
		},
		UnsubscribeHandler: func(_ context.Context, q *sdk.UnsubscribeRequest) error {
			u.mu.Lock()
			defer u.mu.Unlock()
			delete(u.subscribed, [2]string{q.Session.ID(), q.Params.URI})
			return nil
		}})
	for _, uri := range []string{"note://a", "note://b"} {
		u.mcp.AddResource(&sdk.Resource{Name: uri, URI: uri}, func(context.Context, *sdk.ReadResourceRequest) (
			*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, Text: "x"}}}, nil
		})
	}
	return u
}

// sessions returns the number of sessions that have subscribed to a resource.
func (u *updating) sessions(uri string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for of := range u.subscribed {
		if of[1] == uri {
			n++
		}
	}
	return n
}

// update changes a resource.
func (u *updating) update(t *testing.T, uri string) {
	t.Helper()
	check.Must(t, u.mcp.ResourceUpdated(within(t), &sdk.ResourceUpdatedNotificationParams{URI: uri}))
}

// updates changes a resource until the client is notified.
func (u *updating) updates(t *testing.T, c *subscriber, uri string) {
	t.Helper()
	check.Until(t, "an update of "+uri, func() (bool, string) {
		u.update(t, uri)
		return c.has(uri), ""
	})
}

// subscriber is a client that records updates.
type subscriber struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *subscriber) client() *sdk.Client {
	c.all = map[string]int{}
	return sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: c.heard})
}

func (c *subscriber) heard(_ context.Context, q *sdk.ResourceUpdatedNotificationRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[q.Params.URI]++
}

// has reports whether there were updates of a resource, and forgets them.
func (c *subscriber) has(uri string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.all[uri]
	delete(c.all, uri)
	return n > 0
}

// count returns the number of updates.
func (c *subscriber) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.all {
		n += of
	}
	return n
}

func subscribe(t *testing.T, s *sdk.ClientSession, uri string) {
	t.Helper()
	check.Must(t, s.Subscribe(within(t), &sdk.SubscribeParams{URI: uri}))
}

// inEachRevision runs a test in each combination of the revisions of the server and of the client.
func inEachRevision(t *testing.T, test func(t *testing.T, old bool, client string)) {
	t.Helper()
	for server, old := range eras {
		for client := range eras {
			t.Run(server+" "+client, func(t *testing.T) {
				t.Parallel()
				test(t, old, client)
			})
		}
	}
}

// TestUpdatesReachSubscribers: updates of a resource reach the clients that have subscribed to it, until they
// unsubscribe, in each combination of revisions. Those of other resources do not.
func TestUpdatesReachSubscribers(t *testing.T) {
	t.Parallel()
	inEachRevision(t, func(t *testing.T, old bool, client string) {
		u := newUpdating(t, old)
		w := startAsking(t, u.remote, nil, withLevels)
		var one, two subscriber
		a, b := w.connect(t, one.client(), client), w.connect(t, two.client(), client)
		if !a.InitializeResult().Capabilities.Resources.Subscribe {
			t.Error("the gateway declares no subscriptions")
		}
		subscribe(t, a, "note://a")
		subscribe(t, b, "note://b")
		u.updates(t, &one, "note://a")
		u.updates(t, &two, "note://b")
		check.Must(t, a.Unsubscribe(within(t), &sdk.UnsubscribeParams{URI: "note://a"}))
		subscribe(t, a, "note://b")
		u.updates(t, &one, "note://b")
		one.has("note://a")
		u.update(t, "note://a")
		u.updates(t, &one, "note://b")
		u.updates(t, &two, "note://b")
		if one.has("note://a") || two.has("note://a") {
			t.Error("a client gets an update of a resource to which it has not subscribed")
		}
		check.Must(t, a.Close())
		check.Must(t, b.Close())
		if !old {
			return
		}
		check.Until(t, "the end of the subscriptions at the server", func() (bool, string) {
			return u.sessions("note://b") == 0, ""
		})
	})
}

// byMethod sends GETs of a client to one gateway, and other requests to another one.
type byMethod struct {
	http.RoundTripper
	gets, others *mcpGateway
}

func (b *byMethod) RoundTrip(r *http.Request) (*http.Response, error) {
	to := b.others
	if r.Method == http.MethodGet {
		to = b.gets
	}
	r = r.Clone(r.Context())
	r.URL = &url.URL{Scheme: "http", Host: to.gateway.Addr, Path: r.URL.Path}
	r.Host = to.gateway.Addr
	return b.RoundTripper.RoundTrip(r)
}

// replicas runs two gateways with one Redis.
func (u *updating) replicas(t *testing.T, shares bool) *byMethod {
	t.Helper()
	redis := gatewaytest.StartRedis(t)
	var replicas [2]*mcpGateway
	for n := range replicas {
		store := redis.Open(t)
		if shares {
			u.shared = &sessions.Shared{Store: store.UpstreamSessions(), Keys: secret}
		}
		levels := mcpsession.New(store.MCPSessions())
		following, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { levels.Run(following) })
		check.Cleanup(t, func() {
			stop()
			running.Wait()
		})
		replicas[n] = startAsking(t, u.remote, []string{"forms"}, func(o *gatewaytest.Options) {
			o.MCP.Levels = levels
		})
	}
	return &byMethod{clienttest.Bound(&http.Transport{DisableKeepAlives: true}), replicas[0], replicas[1]}
}

// connect connects a client of an earlier revision.
func (b *byMethod) connect(t *testing.T, c *sdk.Client) *sdk.ClientSession {
	t.Helper()
	s, err := c.Connect(within(t), &sdk.StreamableClientTransport{Endpoint: "http://any/mcp",
		HTTPClient: &http.Client{Transport: b}, MaxRetries: -1},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	check.Must(t, err)
	check.Cleanup(t, func() { _ = s.Close() })
	return s
}

// TestUpdatesAtAnyReplica: a client subscribes and unsubscribes at another replica than that of its stream, whether
// replicas share sessions at the server or not.
func TestUpdatesAtAnyReplica(t *testing.T) {
	t.Parallel()
	for server, old := range eras {
		for name, shares := range map[string]bool{"shared": true, "own": false} {
			t.Run(server+" "+name, func(t *testing.T) {
				t.Parallel()
				u := newUpdating(t, old)
				var c subscriber
				s := u.replicas(t, shares).connect(t, c.client())
				subscribe(t, s, "note://a")
				subscribe(t, s, "note://b")
				u.updates(t, &c, "note://a")
				u.updates(t, &c, "note://b")
				check.Must(t, s.Unsubscribe(within(t), &sdk.UnsubscribeParams{URI: "note://a"}))
				if old {
					check.Until(t, "the end of one at the server", func() (bool, string) {
						return u.sessions("note://a") == 0, ""
					})
				} else {
					u.updates(t, &c, "note://b")
					u.updates(t, &c, "note://b")
				}
				c.has("note://a")
				u.update(t, "note://a")
				u.updates(t, &c, "note://b")
				if c.has("note://a") {
					t.Error("the client gets an update after it has unsubscribed")
				}
			})
		}
	}
}

// TestUpdatesBesideAnotherStream: while another replica has the stream of a session that both share, because a call may
// be asked there, the client gets updates from a session of its own.
func TestUpdatesBesideAnotherStream(t *testing.T) {
	t.Parallel()
	u := newUpdating(t, true)
	u.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
		})
	var streams atomic.Int32
	next := *u.handler.Load()
	counts := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet && q.Header.Get("Mcp-Session-Id") != "" {
			streams.Add(1)
		}
		next.ServeHTTP(w, q)
	}))
	u.handler.Store(&counts)
	by, c := u.replicas(t, true), subscriber{all: map[string]int{}}
	s := by.connect(t, sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: c.heard,
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "decline"}, nil
		}}))
	before := streams.Load()
	if text, failed := ask(t, s); failed || streams.Load() == before {
		t.Fatalf("%q, with %d more streams", text, streams.Load()-before)
	}
	subscribe(t, s, "note://a")
	u.updates(t, &c, "note://a")
	u.updates(t, &c, "note://a")
	if n := u.sessions("note://a"); n != 2 { // that of the calls, and the one of its own
		t.Errorf("%d sessions have subscribed", n)
	}
}

type rules interface{ tools.Usable } // with a name that is none of its methods

// blockable is a tools.Usable whose rules may block the resources.
type blockable struct {
	rules
	blocked atomic.Bool
	looks   atomic.Int32 // at subscriptions
}

func (b *blockable) Usability(ctx context.Context, caller *tenant.Identity, capability, tool string) (bool, error) {
	if tool == manifest.ReadResource {
		b.looks.Add(1)
		if b.blocked.Load() {
			return false, nil
		}
	}
	return b.rules.Usability(ctx, caller, capability, tool)
}

// TestRulesDecideAboutUpdates: a caller that may no longer read resources gets no updates. Once it may again, it gets
// one, because it may have missed others.
func TestRulesDecideAboutUpdates(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			u := newUpdating(t, true)
			of := &blockable{}
			w := startAsking(t, u.remote, nil, withLevels, func(o *gatewaytest.Options) {
				of.rules, o.MCP.Usable = o.MCP.Usable, of
			})
			var c subscriber
			s := w.connect(t, c.client(), client)
			subscribe(t, s, "note://a")
			u.updates(t, &c, "note://a")
			of.blocked.Store(true)
			check.Until(t, "updates that are refused", func() (bool, string) {
				u.update(t, "note://a")
				return u.sessions("note://a") == 0, "" // the gateway has unsubscribed
			})
			c.has("note://a") // one may have been on its way
			looks := of.looks.Load()
			check.Until(t, "another look", func() (bool, string) { return of.looks.Load() > looks+1, "" })
			if c.count() != 0 {
				t.Error("the client gets updates of what it must not read")
			}
			err := s.Subscribe(within(t), &sdk.SubscribeParams{URI: "note://b"})
			if client == "2025-11-25" && err == nil {
				t.Error("the caller may subscribe to what it must not read")
			}
			of.blocked.Store(false)
			check.Until(t, "an update after the block", func() (bool, string) { return c.has("note://a"), "" })
		})
	}
}

// TestLostSubscriptions: a server that starts again has no subscriptions. The gateway subscribes again, and notifies
// the client of one update, as others may have been lost.
func TestLostSubscriptions(t *testing.T) {
	t.Parallel()
	inEachRevision(t, func(t *testing.T, old bool, client string) {
		u := newUpdating(t, old)
		w := startAsking(t, u.remote, nil, withLevels)
		var c subscriber
		s := w.connect(t, c.client(), client)
		subscribe(t, s, "note://a")
		u.updates(t, &c, "note://a")
		if old {
			u.restart()
		}
		c.has("note://a")
		u.CloseClientConnections()
		check.Until(t, "an update", func() (bool, string) { return c.has("note://a"), "" })
		u.updates(t, &c, "note://a")
	})
}
