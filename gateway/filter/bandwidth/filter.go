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

// Relay creates groups of streams that share a rate and an account. *relay.Relay implements it.
type Relay interface {
	NewGroup(slowed func(), account relay.Account) *relay.Group
}

// Config configures a Filter. Metrics and Accounts are required.
type Config struct {
	Metrics  *telemetry.Metrics
	Accounts *fairshare.Pool // memory of the relay, by tenant
	Replicas func() int      // number of replicas that share the limits; must not block; nil means 1
}

// Filter applies tenants' limits of bytes per second, artifact size and messages. The relay counts and slows down;
// calls of a tenant that is far behind are rejected.
type Filter struct {
	cfg    Config
	relay  Relay
	single atomic.Pointer[tenant.Settings] // settings of a gateway without tenants; nil means no limits

	unlimited *tenant.Settings // of a gateway without tenants and limits

	known sync.Map // tenant → *flow
	many  atomic.Int64
}

// New returns a Filter. Attach must be called before the first call.
func New(cfg Config) *Filter {
	return &Filter{cfg: cfg, unlimited: &tenant.Settings{ID: tenant.Default}}
}

// Attach sets the relay of the streams.
func (f *Filter) Attach(r Relay) { f.relay = r }

// State holds the limits of a stream.
type State struct {
	bounds *tenant.Settings // nil means none
}

// Admit implements filter.Filter. It adds a call to its tenant's group, and makes the relay count its bytes and
// messages.
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
	if behind := c.Stream.Join(fl.group); behind > farBehind {
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

// Charge charges the tenant for the memory of a call, or rejects the call if there is no room.
func (f *Filter) Charge(c *filter.Call) *call.Refusal {
	if c.Stream.Charge(f.GroupOf(c.Principal.Settings)) {
		return nil
	}
	return c.OutOfMemory()
}

// Exceeded reports whether a stream that exceeds a limit of its tenant must end. In shadow mode it is only counted.
func (*Filter) Exceeded(c *filter.Call, s *State, why relay.Failure) bool {
	c.Principal.Metrics.Limited(limitOf(why), s.bounds.Limits.Shadow)
	return !s.bounds.Limits.Shadow
}

// Explain returns the refusal of a stream that exceeded a limit.
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

// artifactBytes returns the bytes of messages that an artifact of a size may take, with overhead for chunks of a
// kilobyte or more.
func artifactBytes(size int64) int64 {
	if size == 0 {
		return 0
	}
	return size + size/64 + 4<<10
}
