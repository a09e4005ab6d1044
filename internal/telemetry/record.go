package telemetry

import (
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Outcome is what the payload says about a call, apart from its gRPC status.
type Outcome uint8

// The outcomes.
const (
	NoOutcome Outcome = iota // nobody looked, or the RPC has no such thing
	Succeeded                // the tool answered
	ToolError                // the tool reported an error of its own
	CutOff                   // a stream ended without its last chunk
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"", "success", "tool_error", "incomplete"}

func (o Outcome) String() string { return outcomeNames[o] }

// Record is one finished call, as metrics and log see it.
type Record struct {
	Call       *call.Call         // never nil
	Capability *CapabilityMetrics // from Metrics.Capability; nil when no fleet is known for the call
	Tenant     *TenantMetrics     // from Metrics.Tenant; nil when nobody knows who calls
	Client     string             // IP address that the call comes from; "" when it is not known
	Backend    string             // address; "" when the call was forwarded nowhere
	// any number that differs between goroutines that record at the same time; spreads counters
	Shard     uint32
	Code      uint32 // google.rpc.Code that ended the call
	Outcome   Outcome
	Decision  Decision      // whether it might run
	Reason    string        // call.Refusal.Reason when the gateway refused, one of a bounded set
	Shadowed  string        // the limit that would have refused the call, were it in force
	Failure   string        // relay.Failure when the relay ended the call, one of a bounded set
	BytesIn   int64         // from the client
	BytesOut  int64         // to the client
	Started   time.Time     // request headers came
	Forwarded time.Duration // since Started; 0 never
	FirstByte time.Duration // since Started; 0 never
	Ended     time.Duration // since Started
	RequestID string        // "" when there is none
	Trace     TraceID       // zero when there is none
	Traced    bool          // spans of it go to the collector
	Shed      bool          // turned away, as the process had too much to do
	Quiet     bool          // counted, but not logged
	Replayed  bool          // a repeat, by its idempotency key, that got the first call's answer
	InFlight  bool          // Begin counted the call as in flight at Capability and Tenant
}

// Recorder is the step "record".
type Recorder struct {
	metrics *Metrics
	log     *AccessLog // nil: no lines
}

// NewRecorder returns a recorder that counts in m and writes to log, which may be
// nil.
func NewRecorder(m *Metrics, log *AccessLog) *Recorder {
	return &Recorder{metrics: m, log: log}
}

// Begin counts a call of a capability, which must not be nil, by a tenant, which may be, as
// in flight until it is recorded with Begun. Calls that are refused before their capability
// is known need no Begin. shard is Record.Shard.
func (r *Recorder) Begin(c *CapabilityMetrics, t *TenantMetrics, shard uint32) {
	c.addInFlight(shard, 1)
	t.addInFlight(shard, 1)
}

// Record counts the finished call and writes its line. It does not block or keep rec,
// and may be called from any goroutine, once for each call.
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
