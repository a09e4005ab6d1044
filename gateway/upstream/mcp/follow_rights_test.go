package mcp_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// withHeader adds a header to each request.
type withHeader struct {
	http.RoundTripper
	name, value string
}

func (h *withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.RoundTripper.RoundTrip(r)
}

// TestUpdatesEndWithTheRight: the subscriptions of a stream end when its tenant no longer sees the capability.
func TestUpdatesEndWithTheRight(t *testing.T) {
	t.Parallel()
	u, keys, tenants := newUpdating(t, true), tenant.NewKeys(nil), tenant.NewDirectory(nil)
	keyID, secret := tenant.NewCredential()
	key := tenant.Key{ID: keyID, Tenant: "acme", Hash: tenant.HashOf(secret, nil), Scopes: tenant.Invoke | tenant.Read}
	grant := func(patterns ...string) {
		grants, err := tenant.ParseGrants(patterns)
		check.Must(t, err)
		all := map[string]*tenant.Settings{"acme": {ID: "acme", Capabilities: grants}}
		tenants.Replace(all)
		keys.Replace([]tenant.Key{key}, all, nil)
	}
	grant("*")
	var mu sync.Mutex
	var follows []func()
	w := startAsking(t, u.remote, nil, withLevels, func(o *gatewaytest.Options) {
		all := tenant.NewAuthenticators(tenant.Sources{File: keys, Tenants: tenants})
		o.Authenticator, o.MCP.StillValid = all, all.StillValid
		o.MCP.Follow = func(ctx context.Context, valid func(context.Context) bool) (context.Context,
			context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			mu.Lock()
			defer mu.Unlock()
			follows = append(follows, func() {
				if !valid(ctx) {
					cancel()
				}
			})
			return ctx, cancel
		}
	})
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range follows {
			f()
		}
	}
	var c subscriber
	by := &withHeader{clienttest.Bound(&http.Transport{DisableKeepAlives: true}), "X-Api-Key",
		tenant.Credential(keyID, secret)}
	s, err := c.client().Connect(within(t), &sdk.StreamableClientTransport{
		Endpoint:   "http://" + w.gateway.Addr + "/mcp",
		HTTPClient: &http.Client{Transport: by}, MaxRetries: -1},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	check.Must(t, err)
	check.Cleanup(t, func() { _ = s.Close() })
	subscribe(t, s, "note://a")
	u.updates(t, &c, "note://a")
	grant("*") // the same as before
	look()
	u.updates(t, &c, "note://a")
	grant("other")
	look()
	check.Until(t, "the end of the subscription", func() (bool, string) { return u.sessions("note://a") == 0, "" })
}

// TestStreamsShareAPace: a stream of updates also takes from the rate limit of its server.
func TestStreamsShareAPace(t *testing.T) {
	t.Parallel()
	for server, old := range eras {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			u := newUpdating(t, old)
			w := startAsking(t, u.remote, nil, withLevels)
			var c subscriber
			s := w.connect(t, c.client(), "2026-07-28")
			subscribe(t, s, "note://a")
			u.updates(t, &c, "note://a")
			pace, now := mcp.UpdatesPace(w.servers, id, u.URL), time.Now()
			before := pace.Spend(now, 1<<30)
			check.Until(t, "an update that takes from the server's rate limit", func() (bool, string) {
				u.update(t, "note://a")
				return pace.Spend(now, 0) > before, ""
			})
			check.Must(t, s.Close())
		})
	}
}
