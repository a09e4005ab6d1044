package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// loadedFront returns a front for a process with the given number of calls, and keys of the tenants acme and
// globex.
func loadedFront(t *testing.T, most int64, client, backend call.Dialect) (*front, *keyring, *overload.Shedder) {
	t.Helper()
	ring, shedder := newKeyring(), overload.New(overload.Config{MaxInFlight: most})
	keys := tenant.NewKeys(nil)
	all, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	keys.Replace(ring.keys, map[string]*tenant.Settings{"acme": {ID: "acme", Capabilities: all},
		"globex": {ID: "globex", Capabilities: all}}, nil)
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, backend)
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets:        []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
		Authenticator: keys, Overload: shedder,
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, client)
	return f, ring, shedder
}

// flood makes n calls that a backend holds, and waits until each is held or rejected.
func flood(ctx context.Context, t *testing.T, f *front, n int) (held, shed int) {
	t.Helper()
	refused := make(chan error, n)
	for range n {
		go func() {
			if _, err := f.client.Invoke(ctx, request(gatewaytest.Block, `{}`)); status.Code(err) != codes.Canceled &&
				err != nil {
				refused <- err
			}
		}()
	}
	timeout := time.After(check.Patience)
	for held+shed < n {
		select {
		case <-f.capability.Blocked():
			held++
		case err := <-refused:
			shed++
			if errorInfo(err).GetReason() != "OVERLOADED" || retryDelay(err) == 0 {
				t.Fatal(err)
			}
		case <-timeout:
			t.Fatalf("of %d calls %d are held, %d were rejected", n, held, shed)
		}
	}
	return held, shed
}

// waitIdle waits until no call is in flight.
func waitIdle(t *testing.T, s *overload.Shedder) {
	t.Helper()
	check.Until(t, "no call to be in flight", func() (bool, string) {
		n := s.InFlight()
		return n == 0, fmt.Sprint(n, " are")
	})
}

// TestFloodOfATenant: one tenant's calls use up its share; meanwhile all kinds of calls of another tenant
// succeed, and in the end nothing is held.
func TestFloodOfATenant(t *testing.T) {
	t.Parallel()
	for name, backend := range map[string]call.Dialect{"": call.Doc, "translated": call.Live} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, ring, shedder := loadedFront(t, 50, call.Doc, backend)
			acme, leave := context.WithCancel(bearer(t.Context(), ring.credentials["acme"]))
			began := time.Now()
			held, shed := flood(acme, t, f, 200)
			seconds := int(time.Now().Unix() - began.Unix() + 1) // of the clock, in which calls were rejected
			if held != 40 || shed != 160 {
				t.Errorf("%d held, %d rejected; want 40 of 50", held, shed)
			}
			globex := bearer(t.Context(), ring.credentials["globex"])
			var most atomic.Int64
			var others sync.WaitGroup
			for range 5 {
				others.Go(func() {
					for range 20 {
						if _, err := f.client.Invoke(globex, request(gatewaytest.Echo, `{}`)); err != nil {
							t.Error(err)
						}
						if up, err := f.client.Upload(to(globex, "caps"),
							gatewaytest.File{Name: "a", Data: []byte("b")}); err != nil || up.Error != "" {
							t.Error(up, err)
						}
						most.Store(max(most.Load(), shedder.InFlight()))
					}
				})
			}
			others.Wait()
			if most.Load() > 50 {
				t.Errorf("%d calls in flight, of 50", most.Load())
			}
			if got := f.gateway.Metrics(t)[`capgate_shed_total{tenant="acme"}`]; got != float64(shed) {
				t.Errorf("%v calls of acme are counted as rejected, want %d", got, shed)
			}
			if got := f.gateway.Metrics(t)[`capgate_shed_total{tenant="globex"}`]; got != 0 {
				t.Errorf("%v calls of globex are counted as rejected", got)
			}
			leave()
			waitIdle(t, shedder)
			if lines := strings.Count(f.gateway.Log.String(), `"OVERLOADED"`); lines > 100*seconds || lines < 10 {
				t.Errorf("%d log lines of rejected calls in %d seconds", lines, seconds)
			}
		})
	}
}

// TestFullProcess: every caller gets the same error, and some calls are served all the same.
func TestFullProcess(t *testing.T) {
	t.Parallel()
	f, ring, _ := loadedFront(t, 1, call.Doc, call.Doc)
	acme := bearer(t.Context(), ring.credentials["acme"])
	ctx, leave := context.WithCancel(acme)
	defer leave()
	if held, _ := flood(ctx, t, f, 1); held != 1 {
		t.Fatal("the credential was rejected")
	}
	_, err := f.client.Invoke(bearer(t.Context(), ring.credentials["globex"]), request(gatewaytest.Echo, `{}`))
	wants(t, err, codes.Unavailable, "OVERLOADED")
	if retryDelay(err) != time.Second {
		t.Error(err)
	}
	resp, _ := post(t, clienttest.HTTP, f.gateway, "caps", `{"tool_name":"echo","args":{}}`, "x-api-key",
		ring.credentials["globex"])
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
		t.Error(resp.Status, resp.Header)
	}
	if _, err := healthpb.NewHealthClient(f.conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("the gateway's health: %v", err)
	}
	if ready, _ := f.gateway.Admin(t, "/readyz"); ready != http.StatusOK {
		t.Error("not ready")
	}
}

// TestOnlyTenant: without tenants, nothing is reserved for others.
func TestOnlyTenant(t *testing.T) {
	t.Parallel()
	shedder := overload.New(overload.Config{MaxInFlight: 10})
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, call.Doc)
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}}, Overload: shedder,
	})
	f.client = gatewaytest.NewClient(f.gateway.Conn(t), call.Doc)
	ctx, leave := context.WithCancel(t.Context())
	if held, shed := flood(ctx, t, f, 30); held != 10 || shed != 20 {
		t.Errorf("%d held, %d rejected; want 10 and 20", held, shed)
	}
	leave()
	waitIdle(t, shedder)
	if _, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
		t.Error(err)
	}
}
