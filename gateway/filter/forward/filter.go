package forward

import (
	"cmp"
	"slices"
	"time"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// Recorder counts calls in flight. *telemetry.Recorder implements it.
type Recorder interface {
	Begin(*telemetry.CapabilityMetrics, *telemetry.TenantMetrics, uint32)
}

// Learner records the backends of artifacts. *affinity.Resolver implements it.
type Learner interface {
	Learn(affinity.Mention)
}

// Filter forwards calls to their endpoints.
type Filter struct {
	recorder   Recorder
	learner    Learner
	assertions *Assertions
	dialects   bool
}

// New returns a Filter.
func New(r Recorder, l Learner, a *Assertions) Filter {
	return Filter{recorder: r, learner: l, assertions: a}
}

// ByDialect returns a Filter with which the path of a call depends on its backend's dialect.
func (f Filter) ByDialect() Filter {
	f.dialects = true
	return f
}

// State is the state of a call's response. Its memory is reused, see Keep.
type State struct {
	outcome dialect.Scanner
	watch   *watch // nil until needed
}

// watch records the backends of the artifacts in a call's response.
type watch struct {
	call     *filter.Call
	named    []string // artifacts that the call itself names
	learner  Learner
	mentions dialect.Mentions
}

// Keep returns an empty state that reuses the memory of s.
func (s *State) Keep() State {
	if s.watch != nil {
		s.watch.call, s.watch.named = nil, nil
	}
	return State{watch: s.watch}
}

// Admit implements filter.Filter.
func (f Filter) Admit(c *filter.Call, s *State) filter.Step {
	if step := f.assert(c); step != filter.Continue {
		return step
	}
	if !c.InFlight {
		c.InFlight = true
		f.recorder.Begin(c.Metrics(), c.Principal.Metrics, uint32(c.Stream.Shard()))
	}
	c.Details.Tell(c.Stream, c.Client.Address)
	path := c.Info.Path
	if f.dialects {
		d := c.Endpoint.Dialect()
		path = pathAt(c, d)
		// the first attempt may have used another path
		if d != call.Auto && d != c.Spoken.Dialect || c.Attempt.Past > 0 {
			c.Stream.SetPath(path)
		}
	}
	if s.outcome.Reset(c.Spoken.Method, c.Spoken.Dialect) {
		f.watchArtifacts(c, s)
		c.Stream.TapResponse(&s.outcome)
	}
	if c.Span != nil { // spans of the backend are children of the attempt's span
		c.Stream.SetHeader(tracing.Traceparent, startSpan(c, path))
	}
	if c.Fleet.DoubtsRefusals() {
		c.Stream.DoubtRefusals()
	}
	upstream := UpstreamOf(c.Endpoint)
	if upstream.Local() { // local upstreams separate the sessions of tenants
		c.Stream.SetHeader(filter.TenantHeader, c.TenantKey())
		c.Stream.SetHeader(filter.OwnSessionHeader, c.OwnSession()+" "+c.SessionOwner())
		if c.Client.Protocol == call.MCP {
			c.Stream.SetHeader(filter.RestHeader, "1")
		} else {
			c.Stream.DropHeader(filter.RestHeader)
		}
	}
	return c.Forward(upstream)
}

// startSpan starts the span of an attempt, and returns its traceparent.
func startSpan(c *filter.Call, path string) string {
	if c.Info.Method != call.Invoke && c.Info.Method != call.StreamInvoke {
		return c.Span.StartAttempt(c.Endpoint.Addr, path)
	}
	r := c.Fleet.Protocol().Request(c.Info.Tool)
	if r.MCP {
		return c.Span.StartMCPAttempt(c.Endpoint.Addr, r.Method, r.Tool)
	}
	return c.Span.StartAttempt(c.Endpoint.Addr, cmp.Or(r.Method, path))
}

// UpstreamOf returns the connections to a backend.
func UpstreamOf(b *router.Backend) *relay.Upstream { return b.Attached.(*relay.Upstream) }

// Done implements filter.Filter.
func (Filter) Done(c *filter.Call, s *State, r *filter.Result) {
	endToken(c)
	if !r.Final {
		return
	}
	if s.outcome.Reads() {
		c.Outcome = filter.OutcomeOf(&s.outcome)
	}
	if c.Span != nil {
		var first time.Time
		if r.FirstByte > 0 {
			first = r.Started.Add(r.FirstByte)
		}
		c.Span.EndAttempt(r.Code, c.Outcome, first, r.Started.Add(r.Ended))
	}
}

// pathAt returns the path of the call's RPC in the dialect d.
func pathAt(c *filter.Call, d call.Dialect) string {
	if d == call.Auto {
		d = c.Spoken.Dialect
	}
	path, _ := dialect.Path(c.Spoken.Method, d) // the path exists, or protocol would have rejected the call
	return path
}

// watchArtifacts makes the response report the artifacts that its backend returns.
func (f Filter) watchArtifacts(c *filter.Call, s *State) {
	if !c.Principal.Bound() && !c.Fleet.TracksArtifacts() || !dialect.Watches(c.Info.Method) {
		return
	}
	if s.watch == nil { // kept for later calls
		s.watch = &watch{learner: f.learner}
		s.watch.mentions = *dialect.NewMentions(s.watch.learn)
	}
	w := s.watch
	w.call, w.named = c, c.Artifacts.IDs
	w.mentions.Reset(c.Info.Method)
	if c.Principal.Bound() {
		w.mentions.All()
	}
	s.outcome.Watch(&w.mentions)
}

// learn records an artifact's backend, unless the call itself names the artifact.
func (w *watch) learn(id string) {
	if c := w.call; !slices.Contains(w.named, id) {
		w.learner.Learn(affinity.Mention{Fleet: c.Fleet, Tenant: c.Info.Tenant, UID: c.Principal.UID(), ID: id,
			Backend: c.Endpoint, Authoritative: c.Info.Method == call.UploadInputArtifact,
			OwnedOnly: c.Principal.Bound()})
	}
}
