package extauthz_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/engine/shield"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/extauthz"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// question is a request to Shield, in either form.
type question struct {
	kind, tool, args string
	headers          map[string][]string
}

// answer is the response of a Shield: the decision as in the HTTP form, and the times.
type answer struct {
	decision           string
	reasoning, hash    string
	evaluated, expires time.Time
}

func allow() answer { return answer{decision: "ALLOW"} }

// server is a Shield on loopback whose responses a test chooses. An error is a gRPC status, or the corresponding HTTP
// status.
type server struct {
	answer func(context.Context, question) (answer, error)

	mu    sync.Mutex
	asked []question
}

func (s *server) take(ctx context.Context, q question) (answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, q)
	s.mu.Unlock()
	return s.answer(ctx, q)
}

func (s *server) questions() []question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]question(nil), s.asked...)
}

// onBothForms runs a test with the gRPC form and the HTTP form of a Shield. start starts one.
func onBothForms(t *testing.T, test func(t *testing.T, start func(*server) extauthz.Config)) {
	for name, start := range map[string]func(*testing.T, *server, *tls.Certificate) extauthz.Config{"grpc": serveGRPC,
		"http": serveHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(s *server) extauthz.Config { return start(t, s, nil) })
		})
	}
}

// grpcServer serves the gRPC form.
type grpcServer struct {
	openparallaxv1.UnimplementedShieldServiceServer
	server *server
}

// numbers maps decisions to their numbers on the wire, with one that is unknown.
var numbers = map[string]openparallaxv1.VerdictDecision{"ALLOW": 1, "BLOCK": 2, "ESCALATE": 3, "MAYBE": 7}

func (g grpcServer) Evaluate(ctx context.Context, r *openparallaxv1.EvaluateRequest) (
	*openparallaxv1.EvaluateResponse, error) {
	if r.GetPayloadJson() != r.GetToolArgsJson() {
		return nil, status.Error(codes.Internal, "the two forms differ")
	}
	md, _ := metadata.FromIncomingContext(ctx)
	a, err := g.server.take(ctx, question{r.GetActionType(), r.GetToolName(), r.GetToolArgsJson(), md})
	if err != nil {
		return nil, err
	}
	return &openparallaxv1.EvaluateResponse{Verdict: &openparallaxv1.Verdict{
		Decision: numbers[a.decision], Reasoning: a.reasoning, ActionHash: a.hash, EvaluatedAt: unix(a.evaluated),
		ExpiresAt: unix(a.expires),
	}}, nil
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func serveGRPC(t *testing.T, s *server, cert *tls.Certificate) extauthz.Config {
	t.Helper()
	ln := listen(t)
	var opts []grpc.ServerOption
	if cert != nil {
		opts = append(opts, grpc.Creds(credentials.NewServerTLSFromCert(cert)))
	}
	g := grpc.NewServer(opts...)
	openparallaxv1.RegisterShieldServiceServer(g, grpcServer{server: s})
	go func() { _ = g.Serve(ln) }()
	t.Cleanup(g.Stop)
	return extauthz.Config{Name: "main", Address: ln.Addr().String(), Timeout: check.Patience, Cache: 100}
}

// serveHTTP serves the HTTP form, with strict checks of requests.
func serveHTTP(t *testing.T, s *server, cert *tls.Certificate) extauthz.Config {
	t.Helper()
	hs := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Type       string          `json:"type"`
			ActionType string          `json:"action_type"`
			Payload    json.RawMessage `json:"payload"`
			ToolName   string          `json:"tool_name"`
		}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&body); err != nil || r.Method != http.MethodPost || r.URL.Path != "/evaluate" ||
			body.Type != body.ActionType {
			http.Error(w, fmt.Sprintf("a bad question: %v", err), http.StatusBadRequest)
			return
		}
		a, err := s.take(r.Context(), question{body.Type, body.ToolName, string(body.Payload), r.Header})
		if err != nil {
			http.Error(w, err.Error(), map[codes.Code]int{
				codes.Unavailable: 503, codes.ResourceExhausted: 413,
			}[status.Code(err)]|500)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"decision": a.decision, "tier": 0, "confidence": 1.0, "reasoning": a.reasoning, "action_hash": a.hash,
			"evaluated_at": a.evaluated, "expires_at": a.expires,
		})
	}))
	if cert != nil {
		hs.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
		hs.StartTLS()
	} else {
		hs.Start()
	}
	t.Cleanup(hs.CloseClientConnections)
	t.Cleanup(hs.Close)
	return extauthz.Config{Name: "main", URL: hs.URL + "/evaluate", Timeout: check.Patience, Cache: 100}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	return ln
}

// judges returns Shields, one of which checks the capability weather.
func judges(t *testing.T, c extauthz.Config, o extauthz.Options) *extauthz.Shields {
	t.Helper()
	o.Dial = shield.Dial
	s := extauthz.New(o)
	t.Cleanup(s.Close)
	check.Must(t, s.Replace([]extauthz.Config{c}, map[string]string{"weather": c.Name}))
	return s
}

func forecast() *call.Call {
	return &call.Call{
		Tenant: "acme", User: "ann-the-user", Agent: "bot-the-agent", Session: "the-session",
		Capability: "weather", Tool: "Get_Forecast", Method: call.Invoke,
	}
}

// pool returns a pool with one certificate.
func pool(cert *tls.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(cert.Leaf)
	return p
}
