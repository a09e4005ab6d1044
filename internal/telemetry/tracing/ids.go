package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/capgate/capgate/internal/telemetry"
)

// SampleTraceID decides at random about a request without a trace, before it is a call: it returns the id of a new
// trace, or zero.
func (t *Tracer) SampleTraceID() telemetry.TraceID {
	if rand.Float64() >= t.sample {
		return telemetry.TraceID{}
	}
	return telemetry.TraceID(newTraceID())
}

// Sampled returns the parent of a call about which SampleTraceID has decided.
func Sampled(id telemetry.TraceID) Parent { return Parent{trace: trace.TraceID(id), sampled: true} }

// ids generates ids of spans, and of traces without one of SampleTraceID.
type ids struct{}

type sampledKey struct{}

// NewIDs implements sdk.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(sampledKey{}).(trace.TraceID)
	if !ok {
		id = newTraceID()
	}
	return id, newSpanID()
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return newSpanID() }

func newTraceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
