package bandwidth

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// flow is one tenant's part of the relay.
type flow struct {
	group    *relay.Group
	settings atomic.Pointer[tenant.Settings] // that the group's rate is of
	joined   atomic.Uint64                   // calls, while there is a rate
}

const (
	// farBehind is how long it may take until what a tenant brought may have come; then its
	// new calls are refused. Streams that are there wait.
	farBehind = time.Second
	// manyFlows is how many tenants are known before all are forgotten, and begin with an even
	// budget. Streams that they have keep what they have.
	manyFlows = 1 << 16
	// askReplicas is after how many calls of a tenant the replicas are counted again.
	askReplicas = 256
)

// GroupOf returns the group of a tenant, or of the only one.
func (f *Filter) GroupOf(settings *tenant.Settings) *relay.Group {
	if settings == nil {
		settings = f.single.Load()
	}
	if settings == nil {
		settings = unlimited
	}
	return f.of(settings).group
}

// unlimited are the settings of a gateway's only tenant, if that has no limits.
var unlimited = &tenant.Settings{ID: tenant.Default}

// of returns the flow of a tenant, as its settings say.
func (f *Filter) of(settings *tenant.Settings) *flow {
	var fl *flow
	if known, ok := f.known.Load(settings.ID); ok {
		fl = known.(*flow)
	} else {
		fl = f.add(settings)
	}
	// How many replicas there are is asked now and then.
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

// Moved returns the bytes that the relay moved for a tenant, since it is known.
func (f *Filter) Moved(id string) int64 {
	if known, ok := f.known.Load(id); ok {
		return known.(*flow).group.Moved()
	}
	return 0
}

// update has streams that run follow settings that have changed since their tenant's last call.
func (f *Filter) update(settings *tenant.Settings) {
	if _, known := f.known.Load(settings.ID); known {
		f.of(settings)
	}
}

// UpdateSingle says what holds for a gateway without tenants; nil means nothing.
func (f *Filter) UpdateSingle(settings *tenant.Settings) {
	f.single.Store(settings)
	if settings == nil {
		settings = unlimited
	}
	f.update(settings)
}

// watchInterval is the interval in which WatchRates looks for changed rates.
const watchInterval = time.Second

// WatchRates applies changes of tenants' rates to streams that run, until ctx ends. Tenants whose settings are
// unavailable, and deleted ones, keep their rates.
func (f *Filter) WatchRates(ctx context.Context, tenants tenant.Tenants) {
	next := time.NewTicker(watchInterval)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		f.known.Range(func(_, known any) bool {
			was := known.(*flow).settings.Load()
			if was == nil || was.Limits.BytesPerSecond == 0 {
				return true // its streams have none
			}
			if now, refusal := tenants.Settings(ctx, was.ID); refusal == nil && now != nil && now != was {
				f.update(now)
			}
			return ctx.Err() == nil
		})
	}
}

// setRate gives each replica an even share of what a tenant may bring.
func (f *Filter) setRate(fl *flow, l *tenant.Limits) {
	rate := l.BytesPerSecond
	if rate > 0 && f.cfg.Replicas != nil {
		rate = max(rate/max(int64(f.cfg.Replicas()), 1), 1)
	}
	fl.group.SetRate(rate, l.Shadow)
}

func (f *Filter) add(settings *tenant.Settings) *flow {
	id, fl := strings.Clone(settings.ID), &flow{}
	fl.group = f.relay.NewGroup(func() {
		f.cfg.Metrics.Tenant(id).Limited(call.BytesPerSecond, fl.settings.Load().Limits.Shadow)
	}, f.cfg.Accounts.Of(id))
	known, loaded := f.known.LoadOrStore(id, fl)
	if !loaded && f.many.Add(1) > manyFlows {
		f.known.Clear()
		f.many.Store(0)
	}
	return known.(*flow)
}

// declare has the series of a tenant's limits be there before they refuse anything.
func (f *Filter) declare(settings *tenant.Settings) {
	handle := f.cfg.Metrics.Tenant(settings.ID)
	for _, kind := range settings.Limits.Kinds() {
		handle.HasLimit(kind)
	}
}
