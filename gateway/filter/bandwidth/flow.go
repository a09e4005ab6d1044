package bandwidth

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/tenant"
)

// flow is the bandwidth state of a tenant.
type flow struct {
	filter   *Filter
	dropped  atomic.Bool // no longer among the known flows
	group    *relay.Group
	settings atomic.Pointer[tenant.Settings] // settings from which the group's rate was set
	joined   atomic.Uint64                   // number of calls with a rate
}

const (
	// farBehind is the maximum delay of a tenant's bytes. Beyond that, new calls are rejected; existing streams wait.
	farBehind = time.Second
	// manyFlows is the maximum number of flows. When it is reached, all flows are dropped, and new ones start with an
	// even budget. Existing streams keep theirs.
	manyFlows = 1 << 16
	// askReplicas is the number of a tenant's calls after which the replicas are counted again.
	askReplicas = 256
)

// GroupOf returns the group of a tenant, or of the only one.
func (f *Filter) GroupOf(settings *tenant.Settings) *relay.Group {
	if settings == nil {
		settings = f.single.Load()
	}
	if settings == nil {
		settings = f.unlimited
	}
	return f.of(settings).group
}

// of returns the flow of a tenant with these settings.
func (f *Filter) of(settings *tenant.Settings) *flow {
	fl, ok := settings.Slots.Bandwidth.Load().(*flow)
	if !ok || fl.filter != f || fl.dropped.Load() {
		if known, ok := f.known.Load(settings.ID); ok {
			fl = known.(*flow)
		} else {
			fl = f.add(settings)
		}
		settings.Slots.Bandwidth.Store(fl)
	}
	// The number of replicas is refreshed every askReplicas calls.
	before := fl.settings.Load()
	if before != settings {
		f.declare(settings)
	}
	if before != settings || settings.Limits.BytesPerSecond > 0 && fl.joined.Add(1)%askReplicas == 0 {
		fl.settings.Store(settings)
		f.setRate(fl, &settings.Limits)
	}
	return fl
}

// Moved returns the number of bytes that the relay moved for a tenant since its flow was created.
func (f *Filter) Moved(id string) int64 {
	if known, ok := f.known.Load(id); ok {
		return known.(*flow).group.Moved()
	}
	return 0
}

// update applies changed settings of a tenant to open streams.
func (f *Filter) update(settings *tenant.Settings) {
	if _, known := f.known.Load(settings.ID); known {
		f.of(settings)
	}
}

// UpdateSingle sets the limits of a gateway without tenants; nil means none.
func (f *Filter) UpdateSingle(settings *tenant.Settings) {
	f.single.Store(settings)
	if settings == nil {
		settings = f.unlimited
	}
	f.update(settings)
}

// watchInterval is the polling interval of WatchRates.
const watchInterval = time.Second

// WatchRates applies changed rates of tenants to open streams until ctx ends. Deleted tenants, and tenants whose
// settings are unavailable, keep their rates.
func (f *Filter) WatchRates(ctx context.Context, tenants tenant.Tenants) {
	for backoff.Sleep(ctx, watchInterval) {
		f.known.Range(func(_, known any) bool {
			was := known.(*flow).settings.Load()
			if was == nil || was.Limits.BytesPerSecond == 0 {
				return true // it has no open streams
			}
			if now, refusal := tenants.Settings(ctx, was.ID); refusal == nil && now != nil && now != was {
				f.update(now)
			}
			return ctx.Err() == nil
		})
	}
}

// setRate sets each replica's even share of a tenant's rate.
func (f *Filter) setRate(fl *flow, l *tenant.Limits) {
	rate := l.BytesPerSecond
	if rate > 0 && f.cfg.Replicas != nil {
		rate = max(rate/max(int64(f.cfg.Replicas()), 1), 1)
	}
	fl.group.SetRate(rate, l.Shadow)
}

func (f *Filter) add(settings *tenant.Settings) *flow {
	id, fl := strings.Clone(settings.ID), &flow{filter: f}
	fl.group = f.relay.NewGroup(func() {
		f.cfg.Metrics.Tenant(id).Limited(call.BytesPerSecond, fl.settings.Load().Limits.Shadow)
	}, f.cfg.Accounts.Of(id))
	known, loaded := f.known.LoadOrStore(id, fl)
	if !loaded && f.many.Add(1) > manyFlows {
		f.dropAll()
		f.many.Store(0)
	}
	return known.(*flow)
}

// dropAll drops all flows. A flow without its mark is still known.
func (f *Filter) dropAll() {
	f.known.Range(func(id, fl any) bool {
		f.known.Delete(id)
		fl.(*flow).dropped.Store(true)
		return true
	})
}

// declare creates the series of a tenant's limits before the first rejection.
func (f *Filter) declare(settings *tenant.Settings) {
	handle := f.cfg.Metrics.Tenant(settings.ID)
	for _, kind := range settings.Limits.Kinds() {
		handle.HasLimit(kind)
	}
}
