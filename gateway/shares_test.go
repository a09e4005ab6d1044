package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// byName takes credentials for the names of tenants.
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

// TestOneTenantDoesNotFillTheDecisions: one tenant's calls wait until it is known whether they may run, with all that
// they bring. Another's find room beside them, and are decided on.
func TestOneTenantDoesNotFillTheDecisions(t *testing.T) {
	const patient = time.Minute // the calls bring 30 MiB before the store answers, which takes a busy machine its time
	rules := &ruled{
		rules: map[policy.Name]call.Verdict{on("caps", gatewaytest.Echo): call.Allow},
		gate:  make(chan struct{}), asked: make(chan struct{}, 1),
	}
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}}, Authenticator: byName{},
		Relay: relay.Config{MaxConnBuffered: 1 << 30}, MaxMemory: 96 << 20, // 24 MiB for decisions
		Policy: policy.Options{Store: rules, Source: catalog.New(catalog.Options{}), Timeout: patient},
	})
	large := request(gatewaytest.Echo, `{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	const calls = 30 // in all more than may be held
	ended := make(chan error, calls)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for range calls {
		go func() {
			_, err := client.Invoke(to(bearer(t.Context(), "acme"), "caps"), large)
			ended <- err
		}()
	}
	refused := <-ended // there is no more room for it
	if status.Code(refused) != codes.ResourceExhausted || errorInfo(refused).GetReason() != "OVERLOADED" {
		t.Errorf("what is too much: %v", refused)
	}
	if n := g.Metrics(t)[decisionsRefused]; n == 0 {
		t.Error("it is another pool that is full")
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
	case <-time.After(patient):
		t.Error("another tenant's call is not decided on")
	}
	close(rules.gate)
	if err := <-other; err != nil {
		t.Errorf("another tenant's call: %v", err)
	}
	served := 0
	for range calls - 1 {
		switch err := <-ended; {
		case err == nil:
			served++
		case errorInfo(err).GetReason() != "OVERLOADED":
			t.Errorf("a call of the first: %v", err)
		}
	}
	if served == 0 {
		t.Error("no call of the first was served")
	}
}

// decisionsRefused counts what the pool of the decisions had no room for.
const decisionsRefused = `capgate_memory_refused_total{pool="deciding"}`

// TestDecisionsWithoutTenantsAreOverloaded: where there are no tenants, calls for which the decisions have no more room
// are turned away as in any other pool that is full: their policy is not what is unknown.
func TestDecisionsWithoutTenantsAreOverloaded(t *testing.T) {
	const patient = time.Minute
	rules := &ruled{
		rules: map[policy.Name]call.Verdict{on("caps", gatewaytest.Echo): call.Allow},
		gate:  make(chan struct{}), asked: make(chan struct{}, 1),
	}
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}},
		Relay:  relay.Config{MaxConnBuffered: 1 << 30}, MaxMemory: 96 << 20, // 24 MiB for decisions
		Policy: policy.Options{Store: rules, Source: catalog.New(catalog.Options{}), Timeout: patient},
	})
	large := request(gatewaytest.Echo, `{"a":"`+strings.Repeat("x", 1<<20)+`"}`)
	const calls = 30 // in all more than may be held
	ended := make(chan error, calls)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for range calls {
		go func() {
			_, err := client.Invoke(to(t.Context(), "caps"), large)
			ended <- err
		}()
	}
	if err := <-ended; status.Code(err) != codes.Unavailable || errorInfo(err).GetReason() != "OVERLOADED" {
		t.Errorf("what is too much: %v", err)
	}
	if n := g.Metrics(t)[decisionsRefused]; n == 0 {
		t.Error("it is another pool that is full")
	}
	close(rules.gate)
	for range calls - 1 {
		if err := <-ended; err != nil && errorInfo(err).GetReason() != "OVERLOADED" {
			t.Errorf("a call beside it: %v", err)
		}
	}
}
