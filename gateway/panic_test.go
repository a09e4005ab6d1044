package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/extauthz"
)

// faulty is a part of a gateway that panics if the credential or the tool says so.
type faulty struct{ tenant.Single }

func (f faulty) Lookup(c tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	switch c.Credential {
	case "panic at once":
		panic(c.Credential)
	case "panic later":
		return tenant.Identity{}, false, nil
	}
	return tenant.Identity{Tenant: "acme", Key: "k", Scopes: tenant.Invoke | tenant.Read}, true, nil
}

func (f faulty) Authenticate(_ context.Context, c tenant.Credentials) (tenant.Identity, *call.Refusal) {
	panic(c.Credential)
}

func (faulty) For(string) bool { return true }

func (faulty) Check(_ context.Context, _ *call.Call, args []byte) (extauthz.Answer, *call.Refusal) {
	if strings.Contains(string(args), "panic") {
		panic(string(args))
	}
	return extauthz.Answer{Verdict: call.Allow}, nil
}

// TestPanics: a panic in any part of a call ends that call with INTERNAL, at every front door. Other calls and
// the process continue.
func TestPanics(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets:        []gatewaytest.Fleet{{Capability: "caps", Backends: []string{capability.Addr}}},
		Authenticator: faulty{}, Shield: faulty{},
		Services: func(s grpc.ServiceRegistrar) {
			s.RegisterService(&grpc.ServiceDesc{ServiceName: "capgate.v1.Test", HandlerType: (*any)(nil),
				Streams: []grpc.StreamDesc{{
					StreamName: "Panic", ServerStreams: true, Handler: func(any, grpc.ServerStream) error {
						panic("boom")
					},
				}}}, faulty{})
		},
	})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	invoke := func(credential, args string) error {
		_, err := client.Invoke(to(bearer(t.Context(), credential), "caps"), request(gatewaytest.Echo, args))
		return err
	}
	for _, c := range []struct{ name, credential, args string }{
		{"on the reader", "panic at once", `{}`},
		{"beside the relay", "panic later", `{}`},
		{"in a decision", "good", `{"x":"panic"}`},
	} {
		err := invoke(c.credential, c.args)
		if status.Code(err) != codes.Internal || errorInfo(err).GetReason() != "INTERNAL_PANIC" ||
			strings.Contains(err.Error(), "panic at") {
			t.Errorf("%s, over gRPC: %v", c.name, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			g.URL("/v1/capabilities/caps/tools/echo:invoke"), strings.NewReader(c.args))
		check.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+c.credential)
		for protocol, client := range map[string]*http.Client{"HTTP/1.1": g.HTTP1(t), "HTTP/2": g.HTTP2(t)} {
			again := req.Clone(t.Context())
			again.Body = io.NopCloser(strings.NewReader(c.args))
			resp, err := client.Do(again)
			if err != nil {
				t.Errorf("%s, over %s: %v", c.name, protocol, err)
				continue
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), "INTERNAL_PANIC") {
				t.Errorf("%s, over %s: %d %s", c.name, protocol, resp.StatusCode, body)
			}
		}
		if err := invoke("good", `{}`); err != nil {
			t.Fatalf("after %s: %v", c.name, err)
		}
	}
	s, err := g.Conn(t).NewStream(bearer(t.Context(), "good"),
		&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/capgate.v1.Test/Panic")
	if err == nil {
		err = s.RecvMsg(nil)
	}
	if status.Code(err) != codes.Internal {
		t.Errorf("in a service of the gateway's own: %v", err)
	}
	metrics := g.Metrics(t)
	for _, goroutine := range []string{"relay handler", "identity", "decision", "http", "services"} {
		if metrics[`capgate_panics_total{goroutine="`+goroutine+`"}`] == 0 {
			t.Errorf("no panic of %s is counted", goroutine)
		}
	}
}
