package gateway

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// flows hold what tenants' streams bring to their limits: bytes per second, the size of an
// artifact, messages of a stream. The relay counts and slows down; who is far behind makes
// no new calls.
type flows struct {
	relay    *relay.Relay
	replicas func() int // that share the limits; nil: this one alone
	metrics  *telemetry.Metrics
	shares   *shares
	single   atomic.Pointer[tenant.Settings] // of a gateway without tenants; nil: nothing is limited

	known sync.Map // tenant → *flow
	many  atomic.Int64
}

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

// bandwidthState is what a stream is held to.
type bandwidthState struct {
	bounds *tenant.Settings // nil: nothing
}

// join makes a call one of its tenant's, and counts what it brings.
func (f *flows) join(t *callState) *call.Refusal {
	settings := t.Principal.Settings
	if settings == nil {
		settings = f.single.Load()
	}
	if settings == nil {
		return nil
	}
	l := &settings.Limits
	fl := f.of(settings)
	t.Stream.Join(fl.group)
	if behind := fl.group.Behind(); behind > farBehind {
		t.Principal.Metrics.Limited(call.BytesPerSecond, l.Shadow)
		if !l.Shadow {
			return tenant.Exceeded(settings.ID, call.BytesPerSecond, l.BytesPerSecond, behind)
		}
	}
	limits := relay.Limits{Messages: l.Messages}
	if t.Info.Method == call.UploadInputArtifact || t.Info.Method == call.DownloadOutputArtifact {
		limits.Bytes = artifactBytes(l.ArtifactSize)
	}
	t.Stream.Limit(limits)
	t.bandwidth.bounds = settings
	return nil
}

// charge has a call's tenant hold what the relay holds for it.
func (f *flows) charge(t *filter.Call) *call.Refusal {
	if t.Stream.Charge(f.groupOf(t.Principal.Settings)) {
		return nil
	}
	return t.OutOfMemory()
}

// groupOf is the group of a tenant, or of the only one.
func (f *flows) groupOf(settings *tenant.Settings) *relay.Group {
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

// artifactBytes is how many bytes of messages an artifact of that size may take: what is around
// its bytes in chunks of a kilobyte or more is allowed for.
func artifactBytes(size int64) int64 {
	if size == 0 {
		return 0
	}
	return size + size/64 + 4<<10
}

// of is the flow of a tenant, as its settings say.
func (f *flows) of(settings *tenant.Settings) *flow {
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

// update has streams that run follow settings that have changed since their tenant's last call.
func (f *flows) update(settings *tenant.Settings) {
	if _, known := f.known.Load(settings.ID); known {
		f.of(settings)
	}
}

// updateSingle says what holds for a gateway without tenants; nil: nothing.
func (f *flows) updateSingle(settings *tenant.Settings) {
	f.single.Store(settings)
	if settings == nil {
		settings = unlimited
	}
	f.update(settings)
}

// followTime is from one look at whether rates have changed to the next.
const followTime = time.Second

// follow has streams that run follow their tenants' rates until ctx ends. What cannot be found out, and tenants that
// there are no more, change nothing.
func (f *flows) follow(ctx context.Context, tenants tenant.Tenants) {
	next := time.NewTicker(followTime)
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
func (f *flows) setRate(fl *flow, l *tenant.Limits) {
	rate := l.BytesPerSecond
	if rate > 0 && f.replicas != nil {
		rate = max(rate/max(int64(f.replicas()), 1), 1)
	}
	fl.group.SetRate(rate, l.Shadow)
}

func (f *flows) add(settings *tenant.Settings) *flow {
	id, fl := strings.Clone(settings.ID), &flow{}
	fl.group = f.relay.NewGroup(func() { f.metrics.Tenant(id).Limited(call.BytesPerSecond, fl.settings.Load().Limits.Shadow) }, f.shares.calls.Of(id))
	known, loaded := f.known.LoadOrStore(id, fl)
	if !loaded && f.many.Add(1) > manyFlows {
		f.known.Clear()
		f.many.Store(0)
	}
	return known.(*flow)
}

// declare has the series of a tenant's limits be there before they refuse anything.
func (f *flows) declare(settings *tenant.Settings) {
	handle := f.metrics.Tenant(settings.ID)
	for _, kind := range settings.Limits.Kinds() {
		handle.HasLimit(kind)
	}
}

// Exceeded ends a stream that brings more than its tenant's may, unless that is only counted.
func (h *handler) Exceeded(s *relay.Stream, why relay.Failure) bool {
	t := callOf(s)
	t.Principal.Metrics.Limited(limitOf(why), t.bandwidth.bounds.Limits.Shadow)
	return !t.bandwidth.bounds.Limits.Shadow
}

func limitOf(why relay.Failure) call.Limit {
	if why == relay.TooManyMessages {
		return call.Messages
	}
	return call.ArtifactSize
}

// Explain is the relay's own reason to end a call, in the words of the one table.
func (h *handler) Explain(s *relay.Stream, f relay.Failure) relay.Status {
	if f == relay.AccountExceeded && !s.Forwarded() {
		t := callOf(s)
		refusal := t.OutOfMemory()
		t.Reason = refusal.Reason
		return h.statuses.of(refusal)
	}
	if f != relay.TooManyBytes && f != relay.TooManyMessages {
		return h.statuses.explain(f)
	}
	t, most := callOf(s), int64(0)
	if most = t.bandwidth.bounds.Limits.ArtifactSize; f == relay.TooManyMessages {
		most = t.bandwidth.bounds.Limits.Messages
	}
	refusal := tenant.Exceeded(t.bandwidth.bounds.ID, limitOf(f), most, 0)
	t.Reason = refusal.Reason
	return h.statuses.of(refusal)
}
