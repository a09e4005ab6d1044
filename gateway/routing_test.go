package gateway_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// startTwo starts a gateway with the capabilities one and two, and a fleet for a service that names none.
func startTwo(t *testing.T) (g *gatewaytest.Gateway, one, two *gatewaytest.Capability) {
	t.Helper()
	one, two = gatewaytest.NewCapability("one"), gatewaytest.NewCapability("two")
	other := gatewaytest.Serve(t, func(s *grpc.Server) {
		testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	})
	g = gatewaytest.Start(t, gatewaytest.Options{
		Domains: []string{"caps.example.com"},
		Fleets: []gatewaytest.Fleet{
			{Capability: "one", Backends: []string{one.Serve(t, call.Doc).Addr}},
			{Capability: "two", Backends: []string{two.Serve(t, call.Live).Addr},
				Services: []string{"selu.capability.Capability"}},
			{Capability: "interop", Backends: []string{other.Addr}, Services: []string{"grpc.testing.TestService"}},
		},
	})
	return g, one, two
}

func TestNamingTheCapability(t *testing.T) {
	t.Parallel()
	g, one, two := startTwo(t)
	conn := g.Conn(t)
	for _, test := range []struct {
		name                        string
		dialect                     call.Dialect
		metadata, field5, authority string
		want                        string // the serving capability; otherwise a code and a reason
		code                        codes.Code
		reason                      string
	}{
		{name: "metadata", dialect: call.Doc, metadata: "one", want: "one"},
		{name: "field 5", dialect: call.Doc, field5: "one", want: "one"},
		{name: "authority", dialect: call.Doc, authority: "one.caps.example.com", want: "one"},
		{name: "authority with port", dialect: call.Live, authority: "ONE.Caps.Example.com:8080", want: "one"},
		{name: "the service's fleet", dialect: call.Doc, want: "two"},
		{name: "the service's fleet, another domain", dialect: call.Doc, authority: "one.example.net", want: "two"},
		{name: "all agree", dialect: call.Live, metadata: "two", field5: "two", authority: "two.caps.example.com",
			want: "two"},
		{name: "a name goes before the service's fleet", dialect: call.Doc, metadata: "one", want: "one"},
		{name: "none", dialect: call.Live, code: codes.InvalidArgument, reason: "ROUTING_KEY_MISSING"},
		{name: "metadata twice the same", dialect: call.Doc, metadata: "one one", want: "one"},
		{name: "metadata twice", dialect: call.Doc, metadata: "one two", code: codes.InvalidArgument,
			reason: "ROUTING_KEY_CONFLICT"},
		{name: "metadata and field 5", dialect: call.Doc, metadata: "one", field5: "two", code: codes.InvalidArgument,
			reason: "ROUTING_KEY_CONFLICT"},
		{name: "metadata and authority", dialect: call.Doc, metadata: "one", authority: "two.caps.example.com",
			code: codes.InvalidArgument, reason: "ROUTING_KEY_CONFLICT"},
		{name: "field 5 and authority", dialect: call.Doc, field5: "one", authority: "two.caps.example.com",
			code: codes.InvalidArgument, reason: "ROUTING_KEY_CONFLICT"},
		{name: "unknown by metadata", dialect: call.Doc, metadata: "three", code: codes.NotFound,
			reason: "CAPABILITY_UNKNOWN"},
		{name: "unknown by field 5", dialect: call.Doc, field5: "three", code: codes.NotFound,
			reason: "CAPABILITY_UNKNOWN"},
		{name: "unknown by authority", dialect: call.Doc, authority: "three.caps.example.com", code: codes.NotFound,
			reason: "CAPABILITY_UNKNOWN"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, opts := t.Context(), []grpc.CallOption(nil)
			for id := range strings.FieldsSeq(test.metadata) {
				ctx = to(ctx, id)
			}
			if test.authority != "" {
				opts = append(opts, grpc.CallAuthority(test.authority))
			}
			req := request(gatewaytest.Echo, `{}`)
			req.CapabilityId = test.field5
			client := gatewaytest.NewClient(conn, test.dialect)
			before := len(one.Seen()) + len(two.Seen())
			var trailer metadata.MD
			_, err := client.Invoke(ctx, req, append(opts, grpc.Trailer(&trailer))...)
			served := strings.Join(trailer.Get("served-by"), " ")
			if status.Code(err) != test.code || served != test.want || errorInfo(err).GetReason() != test.reason {
				t.Errorf("served by %q, %v (%v)", served, err, errorInfo(err))
			}
			if err != nil && errorInfo(err).GetDomain() != "capgate.dev" {
				t.Errorf("domain %q", errorInfo(err).GetDomain())
			}
			if err != nil && len(one.Seen())+len(two.Seen()) != before {
				t.Error("a refused call reached a backend")
			}
		})
	}
}

// The health of a capability is returned for the routing key of a call.
func TestHealthcheckNamesTheCapability(t *testing.T) {
	t.Parallel()
	g, _, _ := startTwo(t)
	client := gatewaytest.NewClient(g.Conn(t), call.Live)
	if ready, _, err := client.Healthcheck(t.Context(), grpc.CallAuthority("one.caps.example.com")); err != nil ||
		!ready {
		t.Errorf("by authority: %v, %v", ready, err)
	}
	if _, _, err := client.Healthcheck(to(t.Context(), "three")); status.Code(err) != codes.NotFound {
		t.Errorf("unknown: %v", err)
	}
	if _, _, err := client.Healthcheck(t.Context()); status.Code(err) != codes.InvalidArgument {
		t.Errorf("unnamed: %v", err)
	}
}

func TestAnyServiceThroughItsFleet(t *testing.T) {
	t.Parallel()
	g, _, _ := startTwo(t)
	client := testgrpc.NewTestServiceClient(g.Conn(t))
	interop.DoEmptyUnaryCall(t.Context(), client)
	interop.DoPingPong(t.Context(), client)
	for _, line := range g.Log.Calls(t, 2) {
		if line.Text("capability") != "interop" || !strings.HasPrefix(line.Text("path"), "/grpc.testing.TestService/") {
			t.Errorf("logged %v", line)
		}
	}
}

func TestRESTPathAndHeaderMustAgree(t *testing.T) {
	t.Parallel()
	g, _, _ := startTwo(t)
	for header, want := range map[string]int{"one": http.StatusOK, "two": http.StatusBadRequest} {
		resp, body := post(t, g.HTTP1(t), g, "one", `{"tool_name":"echo"}`, "X-Capability-Id", header)
		if resp.StatusCode != want {
			t.Errorf("X-Capability-Id: %s: %s %s", header, resp.Status, body)
		}
	}
}

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = slices.Clone(data); return nil }
func (rawCodec) Name() string                       { return "proto" }

func TestFirstMessageIsProtobuf(t *testing.T) {
	t.Parallel()
	g, one, _ := startTwo(t)
	conn := g.Conn(t)
	field := func(num protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value)
	}
	good := slices.Concat(field(5, "one"), field(1, "echo"))
	ways := map[string]struct {
		message []byte
		code    codes.Code
	}{
		"well formed": {good, codes.OK},
		"unknown fields": {slices.Concat(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7),
			good), codes.OK},
		"cut off in a value":  {good[:len(good)-1], codes.InvalidArgument},
		"cut off in a length": {append(slices.Clone(good), 0x0a, 0x80), codes.InvalidArgument},
		"bad wire type":       {append(slices.Clone(good), 0x0f), codes.InvalidArgument},
		"text":                {[]byte("no"), codes.InvalidArgument},
	}
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		var reply []byte
		before := len(one.Seen())
		err := conn.Invoke(t.Context(), "/selu.capability.v1.Capability/Invoke", &[]byte{}, &reply,
			grpc.ForceCodec(rawCodec{}))
		if status.Code(err) != codes.InvalidArgument {
			t.Fatalf("empty message: %v", err)
		}
		message := ways[name].message
		err = conn.Invoke(t.Context(), "/selu.capability.v1.Capability/Invoke", &message, &reply,
			grpc.ForceCodec(rawCodec{}))
		if status.Code(err) != ways[name].code {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (errorInfo(err).GetReason() != "REQUEST_MALFORMED" || len(one.Seen()) != before) {
			t.Errorf("%s: reason %v, %d calls passed", name, errorInfo(err), len(one.Seen())-before)
		}
	}
}

func TestInvokeWithoutMessage(t *testing.T) {
	t.Parallel()
	g, _, _ := startTwo(t)
	stream, err := g.Conn(t).NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/selu.capability.Capability/StreamInvoke")
	check.Must(t, err)
	check.Must(t, stream.CloseSend())
	var reply []byte
	err = stream.RecvMsg(&reply)
	if status.Code(err) != codes.InvalidArgument || errorInfo(err).GetReason() != "REQUEST_MISSING" {
		t.Errorf("got %v", err)
	}
}
