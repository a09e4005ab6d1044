package grpcservice_test

import (
	"slices"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/grpcservice"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
)

// TestAttemptsAreTraced: the span of an attempt names the method that is called at the service, by OpenTelemetry's
// conventions of RPC, and the service gets its trace context.
func TestAttemptsAreTraced(t *testing.T) {
	t.Parallel()
	collector := oteltest.Start(t)
	tracer := gatewaytest.Tracer(t, collector.Addr, 1)
	s := grpctest.Start(t, grpctest.Options{})
	w := startWith(t, gatewaytest.Options{Tracer: tracer}, nil, s.Addr)
	for i, c := range []struct{ tool, args, method, code, failure string }{
		{"Echo", `{}`, "demo.v1.Demo/Echo", "OK", ""},
		{"Count", `{}`, "demo.v1.Demo/Count", "OK", ""},
		{"Fail", `{"code":9}`, "demo.v1.Demo/Fail", "FAILED_PRECONDITION", "FAILED_PRECONDITION"},
		{upstream.DiscoveryTool, `{}`, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "OK", ""},
	} {
		_, _ = w.Invoke(within(t), request(c.tool, c.args))
		spans := collector.Spans(t, 2*(i+1))[2*i:]
		client := slices.IndexFunc(spans,
			func(s *oteltest.Span) bool { return s.GetKind() == otlp.Span_SPAN_KIND_CLIENT })
		if client < 0 {
			t.Fatalf("%s: %v", c.tool, spans)
		}
		span := spans[client]
		for name, want := range map[string]string{"rpc.system.name": "grpc", "rpc.method": c.method,
			"rpc.response.status_code": c.code, "error.type": c.failure, "mcp.method.name": ""} {
			if got := span.Of[name]; got != want {
				t.Errorf("%s: %s is %q, want %q", c.tool, name, got, want)
			}
		}
		if span.GetName() != c.method {
			t.Errorf("%s: %s", c.tool, span.GetName())
		}
		if got := s.Metadata().Get("traceparent"); c.code == "OK" && c.tool != upstream.DiscoveryTool &&
			!slices.Equal(got, []string{"00-" + span.Trace + "-" + span.ID + "-01"}) {
			t.Errorf("%s: the service got the trace context %q", c.tool, got)
		}
	}
}

// TestRPCMethods: a tool is traced as the method that it stands for, by each rule of names.
func TestRPCMethods(t *testing.T) {
	t.Parallel()
	all := []string{"a.v1.First/Get", "a.v1.First/Put", "b.v1.Second/*"}
	for _, c := range []struct {
		names      grpcservice.ToolNames
		methods    []string
		tool, want string
	}{
		{grpcservice.ByMethod, all, "Put", "a.v1.First/Put"},
		{grpcservice.ByMethod, all, "List", "b.v1.Second/List"},
		{grpcservice.ByMethod, all[:2], "List", "_OTHER"},
		{grpcservice.ByMethod, append(all, "c.v1.Third/*"), "List", "_OTHER"},
		{grpcservice.ByMethod, append(all, "c.v1.Third/*"), "Get", "a.v1.First/Get"},
		{grpcservice.ByService, append(all, "c.v1.Third/*"), "Third_List", "c.v1.Third/List"},
		{grpcservice.ByService, append(all, "c.v1.Third/*"), "Third_", "_OTHER"},
		{grpcservice.ByPackage, append(all, "c.v1.Second/*"), "b_v1_Second_List", "b.v1.Second/List"},
		{grpcservice.ByPackage, all, "a_v1_First_Get", "a.v1.First/Get"},
	} {
		s := &grpcservice.Settings{Methods: c.methods, ToolNames: c.names}
		if got := s.Request(c.tool).Method; got != c.want {
			t.Errorf("%v, rule %d: %s is %s, want %s", c.methods, c.names, c.tool, got, c.want)
		}
	}
}
