package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// byName accepts names of tenants as credentials.
type byName struct{}

func (byName) Lookup(c tenant.Credentials) (tenant.Identity, bool, *call.Refusal) {
	id := strings.Clone(c.Credential)
	all, err := tenant.ParseGrants([]string{"*"})
	if err != nil {
		return tenant.Identity{}, true, &call.Refusal{Message: err.Error()}
	}
	return tenant.Identity{Tenant: id, Key: "k", Scopes: tenant.Invoke,
		Settings: &tenant.Settings{ID: id, Capabilities: all}}, true, nil
}

func (b byName) Authenticate(_ context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	who, _, refusal := b.Lookup(c)
	return who, refusal
}

// TestOneTenantDoesNotFillTheDecisions: while one tenant's calls wait for their decisions with all their
// messages, another's find room and are decided.
func TestOneTenantDoesNotFillTheDecisions(t *testing.T) {
	rules := &ruled{
		rules: map[policy.Name]call.Verdict{on("caps", gatewaytest.Echo): call.Allow},
		gate:  make(chan struct{}), asked: make(chan struct{}, 1),
	}
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}}, Authenticator: byName{},
		// 24 MiB for decisions
		Relay: relay.Config{Memory: relay.Memory{MaxConnBuffered: 1 << 30}}, MaxMemory: 96 << 20,
		Policy: policy.Options{Store: rules, Source: catalog.New(catalog.Options{}), Timeout: time.Hour},
	})
	large := request(gatewaytest.Echo, `{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	running, ended, refused := fillDecisions(t, g, func() error {
		_, err := client.Invoke(to(bearer(t.Context(), "acme"), "caps"), large)
		return err
	})
	if status.Code(refused) != codes.ResourceExhausted || errorInfo(refused).GetReason() != "OVERLOADED" {
		t.Errorf("a call over the share: %v", refused)
	}
	select {
	case <-rules.asked:
	default:
	}
	other := make(chan error, 1)
	go func() {
		_, err := client.Invoke(to(bearer(t.Context(), "globex"), "caps"), large)
		other <- err
	}()
	select {
	case <-rules.asked:
	case err := <-other:
		t.Errorf("another tenant's call: %v", err)
		other <- err
	case <-time.After(check.Patience):
		t.Error("the decision of another tenant's call is missing")
	}
	close(rules.gate)
	if err := check.Received(t, other, "the end of another tenant's call"); err != nil {
		t.Errorf("another tenant's call: %v", err)
	}
	for range running {
		if err := check.Received(t, ended, "the end of a call of the first"); err != nil {
			t.Errorf("a call of the first: %v", err)
		}
	}
}

// fillDecisions makes calls, one after another, until one is rejected. Decisions of the others are pending and
// will end. No other memory pool is full.
func fillDecisions(t *testing.T, g *gatewaytest.Gateway, invoke func() error) (running int, ended chan error,
	refused error) {
	t.Helper()
	const most = 24
	ended = make(chan error, most)
	for ; refused == nil && running < most; running++ {
		go func() { ended <- invoke() }()
		check.Until(t, "a call to be decided on or refused", func() (bool, string) {
			select {
			case refused = <-ended:
				running--
				return true, ""
			default:
			}
			held := g.Metrics(t)[`capgate_memory_bytes{pool="deciding"}`]
			return held >= float64((running+1)<<20), fmt.Sprintf("%v bytes are held for %d calls", held, running+1)
		})
	}
	full := map[string]float64{}
	for name, n := range g.Metrics(t) {
		if of, ok := strings.CutPrefix(name, `capgate_memory_refused_total{pool="`); ok && n > 0 {
			full[strings.TrimSuffix(of, `"}`)] = n
		}
	}
	if len(full) != 1 || full["deciding"] == 0 || running == 0 {
		t.Errorf("after %d calls the pools %v are full, want only that of the decisions", running, full)
	}
	return running, ended, refused
}

// TestDecisionsWithoutTenantsAreOverloaded: without tenants, calls that find the pool of decisions full are
// rejected as with any full pool, and not because their policy is unknown.
func TestDecisionsWithoutTenantsAreOverloaded(t *testing.T) {
	rules := &ruled{
		rules: map[policy.Name]call.Verdict{on("caps", gatewaytest.Echo): call.Allow},
		gate:  make(chan struct{}), asked: make(chan struct{}, 1),
	}
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}},
		// 24 MiB for decisions
		Relay: relay.Config{Memory: relay.Memory{MaxConnBuffered: 1 << 30}}, MaxMemory: 96 << 20,
		Policy: policy.Options{Store: rules, Source: catalog.New(catalog.Options{}), Timeout: time.Hour},
	})
	large := request(gatewaytest.Echo, `{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	running, ended, refused := fillDecisions(t, g, func() error {
		_, err := client.Invoke(to(t.Context(), "caps"), large)
		return err
	})
	if status.Code(refused) != codes.Unavailable || errorInfo(refused).GetReason() != "OVERLOADED" {
		t.Errorf("a call over the share: %v", refused)
	}
	close(rules.gate)
	for range running {
		if err := check.Received(t, ended, "the end of a call beside it"); err != nil {
			t.Errorf("a call beside it: %v", err)
		}
	}
}
