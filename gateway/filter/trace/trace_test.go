package trace_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/filter/trace"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"

func tracer(t *testing.T, sample float64) *tracing.Tracer {
	t.Helper()
	tr, err := tracing.New(tracing.Config{Endpoint: "127.0.0.1:1", Sample: sample, Follow: true})
	check.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.Cleanup(func() { tr.Close(ctx) })
	return tr
}

// TestCallsBelongToTheirTrace: a call belongs to the trace that it names, and has a span if the trace is sampled. An
// invalid trace context is not forwarded.
func TestCallsBelongToTheirTrace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers       []string
		sample        float64
		inTrace, span bool
		passed        bool // traceparent is forwarded
	}{
		"no trace, none sampled": {nil, 0, false, false, false},
		"no trace, all sampled":  {nil, 1, true, true, false},
		"a sampled trace":        {[]string{"traceparent", parent + "01"}, 0, true, true, true},
		"another trace":          {[]string{"traceparent", parent + "00"}, 1, true, false, true},
		"not readable":           {[]string{"traceparent", "00-x"}, 0, false, false, false},
		"two": {[]string{"traceparent", parent + "01", "traceparent", parent + "00"}, 0, false, false,
			false},
	} {
		c, stream := filtertest.NewCall(test.headers...)
		trace.New(tracer(t, test.sample)).Note(c)
		if c.Trace.IsZero() == test.inTrace || (c.Span != nil) != test.span {
			t.Errorf("%s: trace %s, span %t", name, c.Trace.Text(), c.Span != nil)
		}
		if _, passed := stream.Header("traceparent"); passed != test.passed {
			t.Errorf("%s: traceparent goes on: %t", name, passed)
		}
	}
}

// TestDraw: a request without a trace gets one for its calls, and their filter does not start another.
func TestDraw(t *testing.T) {
	t.Parallel()
	f := trace.New(tracer(t, 1))
	c, stream := filtertest.NewCall()
	drawn := f.Draw(stream)
	if drawn == nil || drawn.IsZero() {
		t.Fatalf("nothing was drawn; drawn %+v", drawn)
	}
	if c.Details.Drawn = drawn; true {
		f.Note(c)
	}
	if c.Trace != *drawn {
		t.Errorf("%s, drawn %s", c.Trace.Text(), drawn.Text())
	}
	if _, in := filtertest.NewCall("traceparent", parent+"01"); f.Draw(in) != nil {
		t.Error("it is drawn for a request that is in a trace")
	}
	if trace.New(nil).Draw(stream) != nil {
		t.Error("it is drawn without a tracer")
	}
}

// Example: without a tracer, the trace context is forwarded unchanged.
func Example() {
	c, stream := filtertest.NewCall("traceparent", parent+"01")
	trace.New(nil).Note(c)
	text, _ := stream.Header("traceparent")
	fmt.Println(text == parent+"01", c.Span == nil)
	// Output: true true
}
