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
	rec := recordOf(c, r.Result)
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

// recordOf returns the record of a call that ended with r.
func recordOf(c *filter.Call, r *relay.Result) telemetry.Record {
	rec := telemetry.Record{
		Call: &c.Info, Protocol: c.Client.Protocol, Client: c.Client.Address, RequestID: c.RequestID,
		Capability: c.Metrics(), Tenant: c.Principal.Metrics, InFlight: c.InFlight,
		TenantUID: c.Principal.UID(),
		Code:      r.Code, Reason: c.Reason, Failure: r.Failure.String(), Shadowed: c.Shadowed(), Shed: c.Shed,
		Trace: c.Trace, Traced: c.Span != nil, Replayed: c.Replayed,
		BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		Started: r.Started, Forwarded: r.Forwarded, FirstByte: r.FirstByte, Ended: r.Ended,
		Held: c.Held(),
	}
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
	return rec
}
