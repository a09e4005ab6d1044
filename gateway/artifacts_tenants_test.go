package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// switchableStore is a store that can be made unavailable.
type switchableStore struct {
	affinity.Store
	away atomic.Bool
}

func (s *switchableStore) Unavailable() bool { return s.away.Load() || s.Store.Unavailable() }

// bound is two gateways for the tenants acme and globex, and a capability whose tool List announces the
// artifact to every caller.
type bound struct {
	room         *room
	store        *switchableStore // of the second gateway
	clients      []gatewaytest.Client
	packed       gatewaytest.Client // of the first gateway, which compresses
	acme, globex context.Context
	tells        atomic.Pointer[string]
}

func startBound(t *testing.T, sticky router.Affinity, client, backend call.Dialect) *bound {
	t.Helper()
	b := &bound{room: newRoom(t, 3, backend)}
	none := ""
	b.tells.Store(&none)
	for _, c := range b.room.all {
		c.Lists = func() ([]byte, string, error) {
			return fmt.Appendf(nil, `{"capability_artifact_id":%q}`, *b.tells.Load()), "", nil
		}
	}
	redis := gatewaytest.StartRedis(t)
	ring, keys := newKeyring(), tenant.NewKeys(nil)
	keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}}), nil)
	b.acme = to(bearer(t.Context(), ring.credentials["acme"]), "caps")
	b.globex = to(bearer(t.Context(), ring.credentials["globex"]), "caps")
	fleet := b.room.fleet(backend)
	fleet.Affinity = sticky
	for range 2 {
		b.store = &switchableStore{Store: redis.Open(t).Sessions()}
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}, Authenticator: keys,
			Store: b.store})
		if b.packed == nil {
			b.packed = gatewaytest.NewClient(g.Conn(t, grpc.WithDefaultCallOptions(grpc.UseCompressor("gzip"))), client)
		}
		b.clients = append(b.clients, gatewaytest.NewClient(g.Conn(t), client))
	}
	return b
}

func (b *bound) upload(ctx context.Context, t *testing.T, c gatewaytest.Client) string {
	t.Helper()
	up, err := c.Upload(ctx, gatewaytest.File{Name: "a.txt", Data: []byte("x")})
	if err != nil || up.ID == "" {
		t.Fatalf("got %v, %v", up, err)
	}
	return up.ID
}

// calls returns the number of calls that the capability has received.
func (b *bound) calls() (n int) {
	for _, c := range b.room.all {
		n += len(c.Seen())
	}
	return n
}

// naming returns the ways to name an artifact.
func naming(c gatewaytest.Client) map[string]func(ctx context.Context, id string) error {
	invoke := func(args string) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			return errOf(c.Invoke(ctx, request(gatewaytest.Echo, strings.ReplaceAll(args, "ID", id))))
		}
	}
	return map[string]func(context.Context, string) error{
		"download": func(ctx context.Context, id string) error { return errOf(c.Download(ctx, id)) },
		"argument": invoke(`{"file":{"capability_artifact_id": "ID"}}`),
		"escaped":  invoke(`{"file":{"\u0063apability\u005fartifact_id": "ID"}}`),
		"stream": func(ctx context.Context, id string) error {
			return errOf(c.StreamInvoke(ctx, request(gatewaytest.Echo, `{"capability_artifact_id":"`+id+`"}`)))
		},
	}
}

// TestArtifactsAreTheirTenants: at every gateway and in every way to name it, an artifact exists for the tenant
// that uploaded it or received it in a result. For other tenants it does not exist.
func TestArtifactsAreTheirTenants(t *testing.T) {
	t.Run("own", func(t *testing.T) {
		eachPair(t, func(t *testing.T, client, backend call.Dialect) {
			checkTenantsAreApart(t, startBound(t, sticky, client, backend), true)
		})
	})
	for name, sticky := range map[string]router.Affinity{"shared": {}, "shared, in sessions": {Sessions: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkTenantsAreApart(t, startBound(t, sticky, call.Doc, call.Doc), false) // they do not really share files
		})
	}
}

// checkTenantsAreApart names acme's artifacts in all ways, as either tenant. found requires that every download
// reaches the backend that has the file.
func checkTenantsAreApart(t *testing.T, b *bound, found bool) {
	t.Helper()
	ids := []string{b.upload(b.acme, t, b.clients[0]), b.upload(b.acme, t, b.packed)}
	for _, c := range append(b.clients, b.packed) {
		for way, call := range naming(c) {
			for _, id := range ids {
				before := b.calls()
				got, want := call(b.globex, id), call(b.globex, "nobodys")
				wants(t, got, codes.NotFound, "ARTIFACT_UNKNOWN")
				if !proto.Equal(status.Convert(got).Proto(), status.Convert(want).Proto()) {
					t.Errorf("%s of another tenant's artifact: %v, want %v", way, got, want)
				}
				if n := b.calls() - before; n > 0 {
					t.Errorf("%s of another tenant's artifact: %d calls reached a backend", way, n)
				}
				if err := call(b.acme, id); err != nil && (found || way != "download") {
					t.Errorf("%s of %s by its tenant: %v", way, id, err)
				}
			}
		}
	}
}

// A tool that repeats its arguments announces no artifact that another tenant had before.
func TestRepeatedArtifactsStayTheirTenants(t *testing.T) {
	t.Parallel()
	b := startBound(t, sticky, call.Doc, call.Doc)
	id := b.upload(b.acme, t, b.clients[0])
	if _, err := b.clients[1].Download(b.acme, id); err != nil { // by now all gateways know it
		t.Fatal(err)
	}
	list := func(ctx context.Context, c gatewaytest.Client, id string) {
		t.Helper()
		b.tells.Store(&id)
		if _, err := c.Invoke(ctx, request(gatewaytest.List, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range append(b.clients, b.packed) {
		list(b.globex, c, id)
	}
	for _, c := range b.clients {
		wants(t, errOf(c.Download(b.globex, id)), codes.NotFound, "ARTIFACT_UNKNOWN")
		if _, err := c.Download(b.acme, id); err != nil {
			t.Error(err)
		}
	}
	for i, c := range append(b.clients, b.packed) { // an artifact that globex was the first to receive is its own
		id := fmt.Sprint("report-", i)
		list(b.globex, c, id)
		for _, at := range b.clients {
			// The other gateways are notified beside the call, which may take longer than a call waits.
			check.Succeeds(t, id+" to be known", func() error {
				_, err := at.Invoke(b.globex, request(gatewaytest.Echo, `{"capability_artifact_id":"`+id+`"}`))
				if err != nil && status.Code(err) != codes.NotFound {
					t.Fatalf("%s: %v", id, err)
				}
				return err
			})
			wants(t, errOf(at.Download(b.acme, id)), codes.NotFound, "ARTIFACT_UNKNOWN")
		}
	}
}

// Arguments that name many artifacts are checked completely.
func TestManyArtifacts(t *testing.T) {
	t.Parallel()
	b := startBound(t, sticky, call.Doc, call.Doc)
	mine := make([]string, 64)
	for i := range mine {
		mine[i] = b.upload(b.acme, t, b.clients[0])
	}
	invoke := func(ids ...string) error {
		return errOf(b.clients[0].Invoke(b.acme,
			request(gatewaytest.Echo, `[{"capability_artifact_id":"`+strings.Join(ids,
				`"},{"capability_artifact_id":"`)+`"}]`)))
	}
	if err := invoke(mine...); err != nil {
		t.Error(err)
	}
	wants(t, invoke(append(mine[1:64:64], "b0-99")...), codes.NotFound, "ARTIFACT_UNKNOWN")
	wants(t, invoke(append(mine[:64:64], "b0-99")...), codes.InvalidArgument, "ARTIFACTS_INVALID")
	wants(t, invoke(strings.Repeat("x", 513)), codes.InvalidArgument, "ARTIFACTS_INVALID")
	wants(t, errOf(b.clients[0].Download(b.acme, strings.Repeat("x", 513))), codes.NotFound, "ARTIFACT_UNKNOWN")
}

// While the shared store is unavailable, a gateway uses what it knows and reports all else as unavailable.
func TestArtifactsWithoutTheStore(t *testing.T) {
	t.Parallel()
	b := startBound(t, sticky, call.Doc, call.Doc)
	known, unknown := b.upload(b.acme, t, b.clients[1]), b.upload(b.acme, t, b.clients[0])
	b.store.away.Store(true)
	c := b.clients[1]
	if _, err := c.Download(b.acme, known); err != nil {
		t.Error(err)
	}
	later := b.upload(b.acme, t, c)
	if _, err := c.Download(b.acme, later); err != nil {
		t.Error(err)
	}
	for _, id := range []string{unknown, "nobodys"} {
		wants(t, errOf(c.Download(b.acme, id)), codes.Unavailable, "ARTIFACTS_UNAVAILABLE")
		wants(t, errOf(c.Download(b.globex, id)), codes.Unavailable, "ARTIFACTS_UNAVAILABLE")
	}
	b.store.away.Store(false)
	for _, c := range b.clients { // it receives the announcements that it missed
		check.Holds(t, "the artifact is known", func() bool { return errOf(c.Download(b.acme, later)) == nil })
	}
	if _, err := c.Download(b.acme, unknown); err != nil {
		t.Error(err)
	}
}

// TestArtifactsEnd: an artifact expires after artifact_ttl, also for its own tenant.
func TestArtifactsEnd(t *testing.T) {
	t.Parallel()
	b := startBound(t, router.Affinity{Artifacts: true, ArtifactTTL: time.Second}, call.Doc, call.Doc)
	id := b.upload(b.acme, t, b.clients[0])
	if _, err := b.clients[1].Download(b.acme, id); err != nil {
		t.Error(err)
	}
	for _, c := range b.clients {
		check.Holds(t, "it is forgotten",
			func() bool { return errorInfo(errOf(c.Download(b.acme, id))).GetReason() == "ARTIFACT_UNKNOWN" })
	}
}
