package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/capgate/capgate/internal/telemetry"
)

// SampleTraceID decides by chance about a request that is in no trace, before there is a call of it: the answer is the
// id of the trace that is to begin with the call, zero where none is.
func (t *Tracer) SampleTraceID() telemetry.TraceID {
	if rand.Float64() >= t.sample {
		return telemetry.TraceID{}
	}
	return telemetry.TraceID(newTraceID())
}

// Sampled is in the place of the parent of a call that Draw has decided about.
func Sampled(id telemetry.TraceID) Parent { return Parent{trace: trace.TraceID(id), sampled: true} }

// ids draws those of spans, and of traces whose id was not drawn before.
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
