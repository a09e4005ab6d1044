package telemetry_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/telemetry"
)

func TestTenantsAreCounted(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{Tenants: 2})
	r := telemetry.NewRecorder(m, nil)
	for shard, id := range []string{"acme", "globex", "acme", "initech", "", "hooli", "other", "\xff"} {
		rec := sample()
		rec.Capability, rec.Tenant, rec.Shard = m.Capability("weather"), m.Tenant(id), uint32(shard)
		begin(r, rec)
		r.Record(rec)
	}
	open := sample()
	open.Capability, open.Tenant = m.Capability("weather"), m.Tenant("globex")
	begin(r, open)
	broken := sample()
	broken.Tenant, broken.Code = m.Tenant("acme"), 4711
	r.Record(broken)
	got := scrape(t, m)
	for series, want := range map[string]string{
		`capgate_tenant_calls_total{code="OK",tenant="acme"}`:                                   "2",
		`capgate_tenant_calls_total{code="UNKNOWN",tenant="acme"}`:                              "1",
		`capgate_tenant_calls_total{code="OK",tenant="globex"}`:                                 "1",
		`capgate_tenant_calls_total{code="OK",tenant="other"}`:                                  "4",
		`capgate_tenant_calls_in_flight{tenant="acme"}`:                                         "0",
		`capgate_tenant_calls_in_flight{tenant="globex"}`:                                       "1",
		`capgate_tenant_calls_in_flight{tenant="other"}`:                                        "0",
		`capgate_tenant_bytes_total{direction="in",tenant="acme"}`:                              "3087",
		`capgate_tenant_bytes_total{direction="out",tenant="globex"}`:                           "517",
		`capgate_calls_total{capability="weather",code="OK",method="Invoke",outcome="success"}`: "8",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %s", series, got[series], want)
		}
	}
	for series := range got {
		if strings.Contains(series, "initech") || strings.Contains(series, `tenant=""`) {
			t.Errorf("there is %s", series)
		}
	}
}

// TestATenantKeepsItsHandle: also when many come at the same time, and more than there are
// labels for.
func TestATenantKeepsItsHandle(t *testing.T) {
	t.Parallel()
	const labels, ids = 100, 150
	m := newMetrics(t, telemetry.MetricsConfig{Tenants: labels})
	if nobody := m.Tenant(""); nobody != nil || nobody.Label() != "" {
		t.Errorf("nobody has the handle %p, labelled %q", nobody, nobody.Label())
	}
	var mu sync.Mutex
	seen := map[string]*telemetry.TenantMetrics{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, i := range rand.Perm(ids) {
				id := fmt.Sprintf("t%d", i)
				h := m.Tenant(id)
				mu.Lock()
				if before := seen[id]; before != nil && before != h {
					t.Errorf("%s has two handles", id)
				}
				seen[id] = h
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	own := 0
	for id, h := range seen {
		switch h.Label() {
		case id:
			own++
		case "other":
		default:
			t.Errorf("%s is called %s", id, h.Label())
		}
	}
	if own != labels {
		t.Errorf("%d tenants have a label of their own, want %d", own, labels)
	}
	if h := newMetrics(t, telemetry.MetricsConfig{}).Tenant("acme"); h.Label() != "other" {
		t.Errorf("without labels a tenant is called %s", h.Label())
	}
}

// TestATenantNamedOther has the series of all tenants without a label of their own.
func TestATenantNamedOther(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{Tenants: 2})
	rec := sample()
	for _, id := range []string{"other", "a", "b", "c"} {
		rec.Tenant = m.Tenant(id)
		telemetry.NewRecorder(m, nil).Record(rec)
	}
	if n := scrape(t, m)[`capgate_tenant_calls_total{code="OK",tenant="other"}`]; n != "2" {
		t.Errorf("%q calls of other tenants", n)
	}
}

// TestRejectionsOfTenants: calls that overload or a limit rejects are counted by the limit; a shadow limit has series
// of its own.
func TestRejectionsOfTenants(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, telemetry.MetricsConfig{Tenants: 1})
	rec := sample()
	rec.Tenant, rec.Shed = m.Tenant("acme"), overload.Memory
	telemetry.NewRecorder(m, nil).Record(rec)
	rec.Tenant.Limited(call.CallsPerSecond, true)
	got := scrape(t, m)
	for series, want := range map[string]string{
		`capgate_shed_total{tenant="acme"}`:                                                                      "1",
		`capgate_tenant_shed_total{limit="memory",tenant="acme"}`:                                                "1",
		`capgate_tenant_limited_total{limit="` + call.CallsPerSecond.String() + `",mode="shadow",tenant="acme"}`: "1",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %s", series, got[series], want)
		}
	}
	if n, ok := got[`capgate_tenant_limited_total{limit="`+call.CallsPerSecond.String()+
		`",mode="enforced",tenant="acme"}`]; ok {
		t.Errorf("a shadow limit has rejected %s calls", n)
	}
}

// TestForgottenTenants: a deleted tenant makes room for another one, and starts again at 0.
func TestForgottenTenants(t *testing.T) {
	t.Parallel()
	const labels = 8
	m := newMetrics(t, telemetry.MetricsConfig{Tenants: labels})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 500 { // many more than there are places
				id := fmt.Sprintf("t%d", (n+i)%40)
				m.Tenant(id).Limited(call.Messages, false)
				m.ForgetTenant(id)
			}
		})
	}
	wg.Wait()
	for i := range 40 {
		m.ForgetTenant(fmt.Sprintf("t%d", i))
	}
	m.ForgetTenant("nobody")
	m.ObserveAnswer("t0", time.Second)
	m.ForgetTenant("t0")
	for series := range scrape(t, m) {
		if strings.Contains(series, `tenant="t0"`) {
			t.Errorf("forgotten, yet there is %s", series)
		}
	}
	if all := m.Tenants(); len(all) > 0 {
		t.Errorf("there are %v", all)
	}
	for i := range labels + 1 {
		h := m.Tenant(fmt.Sprintf("t%d", i))
		if h.HasLimit(call.Messages); (h.Label() == "other") != (i == labels) {
			t.Errorf("tenant %d is called %s", i, h.Label())
		}
	}
	if got := scrape(t, m)[`capgate_tenant_limited_total{limit="messages",mode="enforced",tenant="t0"}`]; got != "0" {
		t.Errorf("a tenant that came back begins with %q", got)
	}
}

// TestTenantFrom: an earlier handle is that of its tenant, until the tenant is forgotten.
func TestTenantFrom(t *testing.T) {
	t.Parallel()
	m, another := newMetrics(t, telemetry.MetricsConfig{Tenants: 2}), newMetrics(t, telemetry.MetricsConfig{Tenants: 2})
	first := m.TenantFrom(nil, "acme")
	if first != m.Tenant("acme") || m.TenantFrom(first, "acme") != first {
		t.Error("acme has two handles")
	}
	if h := m.TenantFrom(first, "globex"); h.Label() != "globex" {
		t.Errorf("globex has the handle of %s", h.Label())
	}
	if h := another.TenantFrom(first, "acme"); h != another.Tenant("acme") {
		t.Error("acme has a handle of other metrics")
	}
	common := m.TenantFrom(nil, "initech")
	if m.ForgetTenant("acme"); m.TenantFrom(first, "acme") == first {
		t.Error("acme has a handle that was forgotten")
	}
	m.ForgetTenant("globex")
	if h := m.TenantFrom(common, "initech"); h.Label() != "initech" {
		t.Errorf("initech has the series of %s, while a label is free", h.Label())
	}
}

// not parallel: AllocsPerRun counts what every goroutine allocates
func TestFindingATenantDoesNotAllocate(t *testing.T) {
	m := newMetrics(t, telemetry.MetricsConfig{Tenants: 1})
	for _, id := range []string{"acme", "globex"} {
		if n := testing.AllocsPerRun(1000, func() { m.Tenant(id) }); n != 0 {
			t.Errorf("%s: %v allocations a call", id, n)
		}
	}
}
