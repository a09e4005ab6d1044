package telemetry

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
)

// OtherTenant is the label of all tenants without one of their own.
const OtherTenant = "other"

// TenantMetrics is the handle of one tenant's series, or of the common series of tenants without a label of
// their own. The methods of nil do nothing.
type TenantMetrics struct {
	id        string // "" for the common series
	label     string
	row       []tenantCell
	of        *tenants
	forgotten atomic.Bool // of has it no longer

	limited limited
	limits  [call.NumLimits]atomic.Bool // limits of the tenant
}

// tenantCell holds the counts of one goroutine. It fills whole cache lines.
type tenantCell struct {
	inFlight atomic.Int64
	bytesIn  atomic.Int64
	bytesOut atomic.Int64
	codes    [numCodes]atomic.Int64
	shed     atomic.Int64
	shedBy   [overload.NumLimits]atomic.Int64
	_        [32]byte
}

// Label returns the value of the label tenant, "" for nil. There are at most MetricsConfig.Tenants + 1 values.
func (t *TenantMetrics) Label() string {
	if t == nil {
		return ""
	}
	return t.label
}

func (t *TenantMetrics) cell(shard uint32) *tenantCell { return &t.row[int(shard)&(len(t.row)-1)] }

func (t *TenantMetrics) addInFlight(shard uint32, n int64) {
	if t != nil {
		t.cell(shard).inFlight.Add(n)
	}
}

// count adds a finished call.
func (t *TenantMetrics) count(rec *Record) {
	if t == nil {
		return
	}
	c := t.cell(rec.Shard)
	c.codes[KnownCode(rec.Code)].Add(1)
	c.bytesIn.Add(rec.BytesIn)
	c.bytesOut.Add(rec.BytesOut)
	if rec.Shed != overload.NoLimit {
		c.shed.Add(1)
		c.shedBy[rec.Shed].Add(1)
	}
}

// tenants finds handles by id without a lock. It is a hash table that grows to a known size. The removal of a
// tenant replaces the table.
type tenants struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]tenantSlot] // a power of two of slots, at least half of which stay empty
	other *TenantMetrics
	cells int
	free  atomic.Int64 // labels that are left

	mu sync.Mutex // held to add or remove a tenant
}

type tenantSlot = atomic.Pointer[TenantMetrics]

func newTenants(labels, cells int) *tenants {
	labels = max(labels, 0)
	all := &tenants{
		seed: maphash.MakeSeed(), cells: cells,
		other: &TenantMetrics{label: OtherTenant, row: make([]tenantCell, cells)},
	}
	slots := make([]tenantSlot, 2<<bits.Len(uint(labels)))
	all.slots.Store(&slots)
	all.free.Store(int64(labels))
	return all
}

// Tenant returns the handle of a tenant, the same one for the same id until it is forgotten. The first tenants
// have a label of their own, and all others share one. It blocks only to add one of the first. It does not
// allocate for a known tenant. The tenant "", of unauthenticated calls, has none: nil.
func (m *Metrics) Tenant(id string) *TenantMetrics {
	if id == "" {
		return nil
	}
	t := m.tenants.slot(id).Load()
	if t == nil {
		t = m.tenants.add(id)
	}
	return t
}

// TenantFrom returns Tenant(id). If last, which may be nil, is an earlier result for the tenant, there is no lookup.
func (m *Metrics) TenantFrom(last *TenantMetrics, id string) *TenantMetrics {
	if last != nil && last.of == m.tenants && last.id == id && !last.forgotten.Load() {
		return last
	}
	return m.Tenant(id)
}

// LabelOf returns the label of a tenant that has a handle; "": it has none, and gets none.
func (m *Metrics) LabelOf(id string) string { return m.tenants.slot(id).Load().Label() }

// slot returns the slot of a tenant's handle, or nil if there is none.
func (all *tenants) slot(id string) *tenantSlot { return slotIn(*all.slots.Load(), all.seed, id) }

func slotIn(slots []tenantSlot, seed maphash.Seed, id string) *tenantSlot {
	mask := len(slots) - 1
	for at := int(maphash.String(seed, id)) & mask; ; at = (at + 1) & mask {
		if t := slots[at].Load(); t == nil || t.id == id {
			return &slots[at]
		}
	}
}

// add gives a tenant a label of its own, if one is left and the id is valid.
func (all *tenants) add(id string) *TenantMetrics {
	if all.free.Load() == 0 || id == OtherTenant || !utf8.ValidString(id) {
		return all.other
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	slot := all.slot(id)
	t := slot.Load()
	switch {
	case t != nil:
		return t
	case all.free.Load() == 0:
		return all.other
	}
	all.free.Add(-1)
	t = &TenantMetrics{id: strings.Clone(id), row: make([]tenantCell, all.cells), of: all}
	t.label = t.id
	slot.Store(t)
	return t
}

// ForgetTenant drops the series of a deleted tenant, so that another can have its label. Running calls with its
// handle end without being counted.
func (m *Metrics) ForgetTenant(id string) {
	all := m.tenants
	all.mu.Lock()
	defer all.mu.Unlock()
	forgotten := all.slot(id).Load()
	if forgotten == nil {
		return
	}
	forgotten.forgotten.Store(true)
	old := *all.slots.Load()
	next := make([]tenantSlot, len(old))
	for i := range old {
		if t := old[i].Load(); t != nil && t.id != id {
			slotIn(next, all.seed, t.id).Store(t)
		}
	}
	all.slots.Store(&next)
	all.free.Add(1)
	m.answers.DeleteLabelValues(id)
}

// Tenants returns the tenants with a label of their own.
func (m *Metrics) Tenants() (ids []string) {
	slots := *m.tenants.slots.Load()
	for i := range slots {
		if t := slots[i].Load(); t != nil {
			ids = append(ids, t.id)
		}
	}
	return ids
}

type tenantMetrics struct {
	metrics
	from *tenants

	calls, inFlight, bytes, shed, shedBy, limited *prometheus.Desc
}

func newTenantMetrics(from *tenants) *tenantMetrics {
	m := &tenantMetrics{metrics: metrics{prefix: "capgate_"}, from: from}
	const other = " Tenants without a label of their own are other."
	m.calls = m.add("tenant_calls_total", "Finished calls of a tenant."+other, "tenant", "code")
	m.inFlight = m.add("tenant_calls_in_flight", "Calls of a tenant that were routed and have not finished."+other,
		"tenant")
	m.bytes = m.add("tenant_bytes_total", "Message bytes of a tenant's finished calls; in is from the client."+other,
		"tenant", "direction")
	m.shed = m.add("shed_total", "Calls of a tenant that were rejected because of overload."+other,
		"tenant")
	m.shedBy = m.add("tenant_shed_total",
		"Calls of a tenant that were rejected because of overload, by the limit that rejected them."+other, "tenant",
		"limit")
	m.limited = m.add("tenant_limited_total",
		"Calls of a tenant beyond one of its limits. Those with mode shadow were not rejected."+other, "tenant",
		"limit", "mode")
	return m
}

// Collect implements prometheus.Collector. It emits every tenant that has called, or has limits in the
// configuration.
func (m *tenantMetrics) Collect(ch chan<- prometheus.Metric) {
	slots := *m.from.slots.Load()
	for i := range slots {
		if t := slots[i].Load(); t != nil {
			m.emit(ch, t)
		}
	}
	m.emit(ch, m.from.other)
}

func (m *tenantMetrics) emit(to emitter, t *TenantMetrics) {
	var sum tenantCell
	for i := range t.row {
		c := &t.row[i]
		sum.inFlight.Add(c.inFlight.Load())
		sum.bytesIn.Add(c.bytesIn.Load())
		sum.bytesOut.Add(c.bytesOut.Load())
		sum.shed.Add(c.shed.Load())
		for limit := range c.shedBy {
			sum.shedBy[limit].Add(c.shedBy[limit].Load())
		}
		for code := range c.codes {
			sum.codes[code].Add(c.codes[code].Load())
		}
	}
	for code := range sum.codes {
		if n := sum.codes[code].Load(); n > 0 {
			to.count(m.calls, n, t.label, codeNames[code])
		}
	}
	to.gauge(m.inFlight, float64(sum.inFlight.Load()), t.label)
	to.count(m.bytes, sum.bytesIn.Load(), t.label, "in")
	to.count(m.bytes, sum.bytesOut.Load(), t.label, "out")
	to.count(m.shed, sum.shed.Load(), t.label)
	for limit := range sum.shedBy {
		if n := sum.shedBy[limit].Load(); n > 0 {
			to.count(m.shedBy, n, t.label, overload.Limit(limit).String())
		}
	}
	t.emitLimited(to, m.limited)
}
