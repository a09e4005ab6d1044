package gateway_test

import (
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
)

const (
	aTrace   = "4bf92f3577b34da6a3ce929d0e0e4736"
	aSpan    = "00f067aa0ba902b7"
	sampled  = "00-" + aTrace + "-" + aSpan + "-01"
	ignored  = "00-" + aTrace + "-" + aSpan + "-00"
	aState   = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
	aBaggage = "userId=alice,serverNode=DF%2028"
)

// traced is a front whose calls are traced to a collector of its own.
type traced struct {
	*front
	collector *oteltest.Collector
}

// tracedFront returns such a front. Options that change does not set are those of startFront.
func tracedFront(t *testing.T, sample float64, backend call.Dialect, change func(*gatewaytest.Options)) *traced {
	t.Helper()
	f := &traced{&front{capability: gatewaytest.NewCapability("b1")}, oteltest.Start(t)}
	f.backend = f.capability.Serve(t, backend)
	o := gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}},
		Tracer: gatewaytest.Tracer(t, f.collector.Addr, sample)}
	if change != nil {
		change(&o)
	}
	f.gateway = gatewaytest.Start(t, o)
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, call.Doc)
	return f
}

// pair finds the spans of the only call: its server span and those of its attempts.
func (f *traced) pair(t *testing.T, tries int) (server *oteltest.Span, clients []*oteltest.Span) {
	t.Helper()
	all := f.collector.Spans(t, 1+tries)
	for _, s := range all {
		switch s.GetKind() {
		case otlp.Span_SPAN_KIND_SERVER:
			server = s
		case otlp.Span_SPAN_KIND_CLIENT:
			clients = append(clients, s)
		}
	}
	if server == nil || len(all) != 1+tries || len(clients) != tries {
		t.Fatalf("got %v; server %+v; clients %+v", all, server, clients)
	}
	for _, c := range clients {
		if c.Parent != server.ID || c.Trace != server.Trace ||
			c.GetStartTimeUnixNano() < server.GetStartTimeUnixNano() ||
			c.GetEndTimeUnixNano() < c.GetStartTimeUnixNano() || c.GetEndTimeUnixNano() > server.GetEndTimeUnixNano() {
			t.Errorf("an attempt is not a child of its call: %v, %v", c, server)
		}
	}
	return server, clients
}

// seen returns the trace context of the only call that reached the backend.
func (f *traced) seen(t *testing.T) (traceparent, tracestate, baggage string) {
	t.Helper()
	all := f.capability.Seen()
	if len(all) != 1 {
		t.Fatalf("%d calls at the backend", len(all))
	}
	first := func(name string) string { return strings.Join(all[0].Metadata.Get(name), " and ") }
	return first("traceparent"), first("tracestate"), first("baggage")
}

func checkAttributes(t *testing.T, s *oteltest.Span, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got, there := s.Of[name]; got != value || there != (value != "") {
			t.Errorf("%s of %s is %q, want %q", name, s.GetName(), got, value)
		}
	}
}
