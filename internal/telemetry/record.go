package telemetry

import (
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
)

// Outcome is the result of a call in its payload, apart from its gRPC status.
type Outcome uint8

// The outcomes.
const (
	NoOutcome Outcome = iota // not examined, or the RPC has no outcome
	Succeeded                // the tool succeeded
	ToolError                // the tool reported an error
	CutOff                   // a stream ended without its last chunk
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"", "success", "tool_error", "incomplete"}

func (o Outcome) String() string { return outcomeNames[o] }

// Record is one finished call. Its Summary is its description in logs, lists and traces.
type Record struct {
	Call       *call.Call         // never nil
	Capability *CapabilityMetrics // from Metrics.Capability; nil when no fleet is known for the call
	Tenant     *TenantMetrics     // from Metrics.Tenant; nil without an authenticated caller
	TenantUID  string             // of that tenant; "" for a tenant of the file
	Protocol   call.Protocol      // by which the call reached the gateway
	Client     string             // client's IP address; "" if it is unknown
	Listener   string             // where the call came in; "" for the public port
	Backend    string             // address; "" if the call was not forwarded
	Attempts   int                // times that it was sent to a backend
	// a number that differs between goroutines that record at the same time; spreads counters
	Shard     uint32
	Code      uint32 // google.rpc.Code of the call
	Outcome   Outcome
	Decision  Decision       // the policy's decision
	Reason    string         // call.Refusal.Reason if the gateway rejected the call, one of a bounded set
	Shadowed  string         // the shadow limit that would have rejected the call
	Failure   string         // relay.Failure if the relay ended the call, one of a bounded set
	BytesIn   int64          // from the client
	BytesOut  int64          // to the client
	Started   time.Time      // arrival of the request headers
	Forwarded time.Duration  // since Started; 0: never
	FirstByte time.Duration  // since Started; 0: never
	Ended     time.Duration  // since Started
	Held      time.Duration  // part of Ended for which the call waited for a person's approval; not in its duration
	RequestID string         // "" when there is none
	Trace     TraceID        // zero: none
	Traced    bool           // its spans are exported
	Shed      overload.Limit // that rejected it
	Quiet     bool           // counted, but not logged
	Page      bool           // request of a page for people, such as the inbox without a sign-in; not a call
	Replayed  bool           // repeated with its idempotency key, and got the first call's response
	Gateway   bool           // made by the gateway itself
	InFlight  bool           // Begin counted the call as in flight at Capability and Tenant

	summary    Summary // of Summary
	summarized bool
}

// Recorder counts and logs finished calls.
type Recorder struct {
	metrics *Metrics
	log     *AccessLog // nil: no access log
}

// NewRecorder returns a recorder that counts in m and writes to log, which may be
// nil.
func NewRecorder(m *Metrics, log *AccessLog) *Recorder {
	return &Recorder{metrics: m, log: log}
}

// Begin counts a call of a capability, which must not be nil, by a tenant, which may be, as in flight until it
// is recorded with InFlight. A call that is rejected before its capability is known needs no Begin. The
// argument shard is Record.Shard.
func (r *Recorder) Begin(c *CapabilityMetrics, t *TenantMetrics, shard uint32) {
	c.addInFlight(shard, 1)
	t.addInFlight(shard, 1)
}

// Record counts the finished call and writes its line. It neither blocks nor keeps rec. It may be called from
// any goroutine, once for each call.
func (r *Recorder) Record(rec *Record) {
	if rec.InFlight {
		rec.Capability.addInFlight(rec.Shard, -1)
		rec.Tenant.addInFlight(rec.Shard, -1)
	}
	r.metrics.count(rec)
	if r.log != nil && !rec.Quiet {
		r.log.write(rec)
	}
}
