package bandwidth

import (
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Relay makes the groups of streams that share a rate and an account, as *relay.Relay does.
type Relay interface {
	NewGroup(slowed func(), account relay.Account) *relay.Group
}

// Config is for a Filter. Metrics and Accounts are required.
type Config struct {
	Metrics  *telemetry.Metrics
	Accounts *fairshare.Pool // of what the relay holds for tenants
	Replicas func() int      // that share the limits; it must not block; nil means this one alone
}

// Filter holds streams to their tenants' limits of bytes per second, size of an artifact and messages. The relay
// counts and slows down; a tenant that is far behind makes no new calls.
type Filter struct {
	cfg    Config
	relay  Relay
	single atomic.Pointer[tenant.Settings] // of a gateway without tenants; nil means nothing is limited

	known sync.Map // tenant → *flow
	many  atomic.Int64
}

// New returns a Filter, which needs Attach before the first call.
func New(cfg Config) *Filter { return &Filter{cfg: cfg} }

// Attach says which relay the streams are of.
func (f *Filter) Attach(r Relay) { f.relay = r }

// State is what a stream is held to.
type State struct {
	bounds *tenant.Settings // nil means nothing
}

// Admit implements filter.Filter. It makes a call one of its tenant's, and has the relay count what it brings.
func (f *Filter) Admit(c *filter.Call, s *State) filter.Step {
	settings := c.Principal.Settings
	if settings == nil {
		settings = f.single.Load()
	}
	if settings == nil {
		return filter.Continue
	}
	l := &settings.Limits
	fl := f.of(settings)
	c.Stream.Join(fl.group)
	if behind := fl.group.Behind(); behind > farBehind {
		c.Principal.Metrics.Limited(call.BytesPerSecond, l.Shadow)
		if !l.Shadow {
			return c.Reject(tenant.Exceeded(settings.ID, call.BytesPerSecond, l.BytesPerSecond, behind))
		}
	}
	limits := relay.Limits{Messages: l.Messages}
	if c.Info.Method == call.UploadInputArtifact || c.Info.Method == call.DownloadOutputArtifact {
		limits.Bytes = artifactBytes(l.ArtifactSize)
	}
	c.Stream.Limit(limits)
	s.bounds = settings
	return filter.Continue
}

// Done implements filter.Filter.
func (*Filter) Done(*filter.Call, *State, *filter.Result) {}

// Charge has a call's tenant hold what the relay holds for it, or rejects the call where there is no room.
func (f *Filter) Charge(c *filter.Call) *call.Refusal {
	if c.Stream.Charge(f.GroupOf(c.Principal.Settings)) {
		return nil
	}
	return c.OutOfMemory()
}

// Exceeded reports whether a stream ends that brings more than its tenant's may; else that is only counted.
func (*Filter) Exceeded(c *filter.Call, s *State, why relay.Failure) bool {
	c.Principal.Metrics.Limited(limitOf(why), s.bounds.Limits.Shadow)
	return !s.bounds.Limits.Shadow
}

// Explain returns the reason why such a stream ended.
func (*Filter) Explain(s *State, why relay.Failure) *call.Refusal {
	most := s.bounds.Limits.ArtifactSize
	if why == relay.TooManyMessages {
		most = s.bounds.Limits.Messages
	}
	return tenant.Exceeded(s.bounds.ID, limitOf(why), most, 0)
}

func limitOf(why relay.Failure) call.Limit {
	if why == relay.TooManyMessages {
		return call.Messages
	}
	return call.ArtifactSize
}

// artifactBytes is how many bytes of messages an artifact of that size may take: what is around
// its bytes in chunks of a kilobyte or more is allowed for.
func artifactBytes(size int64) int64 {
	if size == 0 {
		return 0
	}
	return size + size/64 + 4<<10
}
