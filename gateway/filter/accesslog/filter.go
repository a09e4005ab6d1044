package accesslog

import (
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
)

// Config configures a Filter. Recorder and Quiet are required.
type Config struct {
	Recorder *telemetry.Recorder
	Audit    *audit.Log              // optional
	Quiet    func(at time.Time) bool // reports whether the log line of a shed call is omitted
	Gateway  bool                    // the calls are made by the gateway itself
	// Recent lists the last calls; optional. It is not an interface, so that records are not allocated.
	Recent  *recent.Log
	History *history.Log // counts the calls of the last seven days; optional
}

// Filter records each call once: in the access log, the metrics, the call's trace and the audit log.
type Filter struct{ cfg Config }

// New returns a Filter.
func New(cfg Config) Filter { return Filter{cfg} }

// Admit implements filter.Filter.
func (Filter) Admit(*filter.Call, *filter.Stateless) filter.Step { return filter.Continue }

// Done implements filter.Filter.
func (f Filter) Done(c *filter.Call, _ *filter.Stateless, r *filter.Result) {
	var rec telemetry.Record
	fill(&rec, c, r.Result)
	rec.Shard = uint32(c.Stream.Shard())
	c.Span.End(&rec)
	f.Record(&rec, c.Audited)
}

// Record records a call, or a request that was rejected before it became a call. reserved is true if its audit record
// is reserved.
func (f Filter) Record(rec *telemetry.Record, reserved bool) {
	rec.Quiet, rec.Gateway = rec.Shed != overload.NoLimit && f.cfg.Quiet(rec.Started), f.cfg.Gateway
	f.cfg.Recorder.Record(rec)
	if f.cfg.Recent != nil && !f.cfg.Gateway && !rec.Page {
		f.cfg.Recent.Record(rec)
	}
	if !f.cfg.Gateway && !rec.Page {
		f.cfg.History.Record(rec)
	}
	switch log := f.cfg.Audit; {
	case log == nil:
	case !rec.Quiet:
		log.RecordCall(rec, reserved)
	case reserved:
		log.Release()
	}
}

// fill makes an empty record that of a call that ended with r. Records are large, so they are not copied.
func fill(rec *telemetry.Record, c *filter.Call, r *relay.Result) {
	rec.Call, rec.Protocol, rec.Client, rec.RequestID = &c.Info, c.Client.Protocol, c.Client.Address, c.RequestID
	rec.Capability, rec.Tenant, rec.TenantUID = c.Metrics(), c.Principal.Metrics, c.Principal.UID()
	rec.InFlight, rec.Code, rec.Reason, rec.Failure = c.InFlight, r.Code, c.Reason, r.Failure.String()
	rec.Shadowed, rec.Shed, rec.Replayed = c.Shadowed(), c.Shed, c.Replayed
	rec.Trace, rec.Traced = c.Trace, c.Span != nil
	rec.BytesIn, rec.BytesOut = r.BytesIn, r.BytesOut
	rec.Started, rec.Forwarded, rec.FirstByte, rec.Ended = r.Started, r.Forwarded, r.FirstByte, r.Ended
	rec.Held = c.Held()
	if d := &c.Decision; d.Made {
		rec.Decision = telemetry.Decision{Made: true, Level: d.Level, Verdict: d.Verdict, Cached: d.Cached,
			Differs: d.Differs, Candidate: d.Candidate, Approval: d.Approval}
	}
	if at := c.Client.At; at != nil {
		rec.Listener = at.Name
	}
	if c.Endpoint != nil {
		rec.Backend, rec.Attempts = c.Endpoint.Addr, int(c.Attempt.Past)+1
	}
	if r.Code == 0 {
		rec.Outcome = c.Outcome
	}
}
