package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const invokePath = "/v1/capabilities/weather/invoke"

// backend is a capability that answers with what invoke says, and remembers its calls.
type backend struct {
	docpb.UnimplementedCapabilityServer
	invoke func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error)
	stream func(*docpb.InvokeRequest, grpc.ServerStreamingServer[docpb.InvokeChunk]) error
	health func(context.Context) (*docpb.HealthResponse, error)

	mu   sync.Mutex
	req  *docpb.InvokeRequest
	md   metadata.MD
	left time.Duration // until the deadline; 0 without one
}

func (b *backend) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	b.see(ctx, req)
	if b.invoke != nil {
		return b.invoke(ctx, req)
	}
	return &docpb.InvokeResponse{ResultJson: req.GetArgsJson()}, nil // an echo
}

func (b *backend) StreamInvoke(req *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	b.see(stream.Context(), req)
	if b.stream != nil {
		return b.stream(req, stream)
	}
	return stream.Send(&docpb.InvokeChunk{Data: req.GetArgsJson(), Done: true})
}

func (b *backend) Healthcheck(ctx context.Context, _ *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return b.health(ctx)
}

func (b *backend) see(ctx context.Context, req *docpb.InvokeRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.req = req
	b.md, _ = metadata.FromIncomingContext(ctx)
	if d, ok := ctx.Deadline(); ok {
		b.left = time.Until(d)
	}
}

// last returns the call that came last.
func (b *backend) last() (*docpb.InvokeRequest, metadata.MD, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.req, b.md, b.left
}

// door returns a front door whose gateway is b alone, over real sockets.
func door(t testing.TB, b *backend, cfg rest.Config) *httptest.Server {
	t.Helper()
	return resttest.Serve(t, func(g *grpc.Server) { docpb.RegisterCapabilityServer(g, b) }, cfg)
}

func TestInvoke(t *testing.T) {
	t.Parallel()
	const odd = `{"z":12345678901234567890123, "a" : 1.10, "s":"\u00fc<é>\/" ,"n":[-0, 1E+300,null]}`
	b64 := base64.StdEncoding.EncodeToString([]byte(odd))
	for _, tt := range []struct {
		name, body                          string
		tool, args, config, session, thread string
	}{
		{"plain", `{"tool_name":"t","args":{"location":"Berlin"}}`, "t", `{"location":"Berlin"}`, `{}`, "", ""},
		{"untouched", `{"tool_name":"t","args":` + odd + `,"config":` + odd + "}\n ", "t", odd, odd, "", ""},
		{"base64", `{"toolName":"t","args_json":"` + b64 + `","configJson":"` + b64 + `"}`, "t", odd, odd, "", ""},
		{"base64 for URLs", `{"tool_name":"t","argsJson":"_-8","config_json":"/+8="}`, "t", "\xff\xef", "\xff\xef", "",
			""},
		{"every field", `{"capability_id":"weather","tool_name":"t","args":{},"config":{"k":"v"},"sessionId":"s","thread_id":"th"}`, "t", `{}`, `{"k":"v"}`, "s", "th"},
		{"nulls", `{"tool_name":"t","args":null,"args_json":"","config":{},"config_json":null,"session_id":null,"capabilityId":null}`, "t", `{}`, `{}`, "", ""},
		{"escaped names", `{"tool\u005fname":"\u0074"}`, "t", `{}`, `{}`, "", ""},
		{"same names in different objects", `{"tool_name":"t","args":{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}}}`, "t",
			`{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}}`, `{}`, "", ""},
		{"a hundred levels", `{"tool_name":"t","args":{"a":` + strings.Repeat("[", 98) + strings.Repeat("]", 98) + `}}`,
			"t", `{"a":` + strings.Repeat("[", 98) + strings.Repeat("]", 98) + `}`, `{}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := new(backend)
			got := resttest.Send(t, door(t, b, rest.Config{}), "POST", invokePath, tt.body)
			req, _, _ := b.last()
			if got.Status != 200 || req == nil {
				t.Fatalf("%d %s; req %+v", got.Status, got.Body, req)
			}
			if req.GetCapabilityId() != "weather" || req.GetToolName() != tt.tool ||
				string(req.GetArgsJson()) != tt.args || string(req.GetConfigJson()) != tt.config ||
				req.GetSessionId() != tt.session || req.GetThreadId() != tt.thread {
				t.Errorf("the backend got %v", req)
			}
			if json.Valid([]byte(tt.args)) && got.Body != `{"result":`+tt.args+"}\n" {
				t.Errorf("got %s", got.Body)
			}
		})
	}
}

func TestResponse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		result string
		err    string
		want   string
	}{
		{"JSON of any kind", ` [1.0, 9007199254740993, "<ü>"] `, "", `{"result":[1.0, 9007199254740993, "<ü>"]}`},
		{"null", `null`, "", `{"result":null}`},
		{"nothing", ``, "", `{}`},
		{"not JSON", `{"a":`, "", `{"result_json":"eyJhIjo="}`},
		{"not UTF-8", "\"\xff\"", "", `{"result_json":"Iv8i"}`},
		{"two texts", "1 2", "", `{"result_json":"MSAy"}`},
		{"tool error", ``, "no \"Berlln\" <near> Berlin\n", `{"error":"no \"Berlln\" <near> Berlin\n"}`},
		{"tool error and a result", `{}`, "e", `{"result":{},"error":"e"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &backend{invoke: func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
				return &docpb.InvokeResponse{ResultJson: []byte(tt.result), Error: tt.err}, nil
			}}
			got := resttest.Send(t, door(t, b, rest.Config{}), "POST", invokePath, `{"tool_name":"t"}`)
			if got.Status != 200 || got.Body != tt.want+"\n" {
				t.Errorf("%d %s; want %s", got.Status, got.Body, tt.want)
			}
			if ct := got.Header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("Content-Type %q", ct)
			}
			if got.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("browsers may sniff")
			}
		})
	}
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{})
	const frame = `{"tool_name":"t","args":{"a":""}}`
	body := `{"tool_name":"t","args":{"a":"` + strings.Repeat("x", 15<<20) + `"}}`
	if got := resttest.Send(t, web, "POST", invokePath, body); got.Status != 200 || len(got.Body) < 15<<20 {
		t.Errorf("15 MiB: %d, %d bytes", got.Status, len(got.Body))
	}
	body = `{"tool_name":"t","args":{"a":"` + strings.Repeat("x", 16<<20-len(frame)+1) + `"}}`
	if got := resttest.Send(t, web, "POST", invokePath, body); got.Status != 413 {
		t.Errorf("16 MiB and a byte: %d", got.Status)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", web.URL+invokePath,
		io.MultiReader(strings.NewReader(body))) // no Content-Length
	check.Must(t, err)
	resp, err := web.Client().Do(req)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 413 || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("chunked: %d %v", resp.StatusCode, resp.Header)
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	web := door(t, new(backend), rest.Config{})
	for typ, want := range map[string]int{
		"": 200, "application/json": 200, "application/json; charset=utf-8": 200, "APPLICATION/JSON": 200,
		"application/x-www-form-urlencoded": 200, "application/vnd.thing+json": 200, "text/json": 200,
		"text/plain": 415, "application/xml": 415, "multipart/form-data; boundary=x": 415, "rubbish;;": 415,
		"image/x+json": 415,
	} {
		var header []string
		if typ != "" {
			header = []string{"Content-Type", typ}
		}
		if got := resttest.Send(t, web, "POST", invokePath, `{"tool_name":"t"}`, header...); got.Status != want {
			t.Errorf("%q: %d %s", typ, got.Status, got.Body)
		}
	}
}

func TestHeadersGoAlong(t *testing.T) {
	t.Parallel()
	b := new(backend)
	got := resttest.Send(t, door(t, b, rest.Config{}), "POST", invokePath, `{"tool_name":"t"}`,
		"Authorization", "Bearer secret", "X-Request-Id", "r-1", "traceparent", "00-ab-cd-01", "X-Session-Id", "s-1",
		"Te", "trailers",
		"X-Capability-Id", "weather", "Cookie", "c=1", "X-Other", "o", "Grpc-Metadata-X-Evil", "e", "X-Forwarded-For",
		"1.2.3.4", "Accept", "text/html")
	if got.Status != 200 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	_, md, left := b.last()
	for name, want := range map[string]string{"authorization": "Bearer secret", "x-request-id": "r-1",
		"traceparent":  "00-ab-cd-01",
		"x-session-id": "s-1", "x-capability-id": "weather"} {
		if v := md.Get(name); len(v) != 1 || v[0] != want {
			t.Errorf("%s: %q", name, v)
		}
		md.Delete(name)
	}
	for name, v := range md {
		if !strings.HasPrefix(name, ":") && name != "content-type" && name != "user-agent" &&
			name != "grpc-accept-encoding" {
			t.Errorf("%s: %q went along", name, v)
		}
	}
	if left != 0 {
		t.Errorf("a deadline out of nowhere: %v", left)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{})
	for _, tt := range []struct {
		header []string
		min    time.Duration
		max    time.Duration // 0 means refused
	}{
		{[]string{"Grpc-Timeout", "30S"}, 20 * time.Second, 30 * time.Second},
		{[]string{"Request-Timeout", "30"}, 20 * time.Second, 30 * time.Second},
		{[]string{"Request-Timeout", "30.5"}, 30 * time.Second, 31 * time.Second},
		{[]string{"Request-Timeout", "2m"}, time.Minute, 2 * time.Minute},
		{[]string{"Request-Timeout", "2m", "Grpc-Timeout", "1H"}, time.Minute, 2 * time.Minute},
		{[]string{"Grpc-Timeout", "99999999H"}, time.Hour, 1<<62 + time.Hour},
		{[]string{"Grpc-Timeout", "123456789S"}, 0, 0},
		{[]string{"Grpc-Timeout", "S"}, 0, 0},
		{[]string{"Grpc-Timeout", "-1S"}, 0, 0},
		{[]string{"Grpc-Timeout", "1x"}, 0, 0},
		{[]string{"Request-Timeout", "0"}, 0, 0},
		{[]string{"Request-Timeout", "-3s"}, 0, 0},
		{[]string{"Request-Timeout", "NaN"}, 0, 0},
		{[]string{"Request-Timeout", "soon"}, 0, 0},
	} {
		got := resttest.Send(t, web, "POST", invokePath, `{"tool_name":"t"}`, tt.header...)
		if tt.max == 0 {
			if got.Status != 400 || !strings.Contains(got.Body, "INVALID_HEADER") {
				t.Errorf("%q: %d %s", tt.header, got.Status, got.Body)
			}
			continue
		}
		if _, _, left := b.last(); got.Status != 200 || left < tt.min || left > tt.max {
			t.Errorf("%q: %d, %v left", tt.header, got.Status, left)
		}
	}
}

func TestDeadlinePasses(t *testing.T) {
	t.Parallel()
	b := &backend{invoke: func(ctx context.Context, _ *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	web := door(t, b, rest.Config{})
	for _, h := range [][]string{{"Request-Timeout", "50ms"}, {"Grpc-Timeout", "50m"}, {"Grpc-Timeout", "0S"}} {
		got := resttest.Send(t, web, "POST", invokePath, `{"tool_name":"t"}`, h...)
		if got.Status != 504 || resttest.ProblemOf(t, got).Code != "DEADLINE_EXCEEDED" {
			t.Errorf("%q: %d %s", h, got.Status, got.Body)
		}
	}
}

func TestClientLeaves(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}), make(chan error, 1)
	b := &backend{invoke: func(ctx context.Context, _ *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		close(started)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}
	web := door(t, b, rest.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", web.URL+invokePath, bytes.NewBufferString(`{"tool_name":"t"}`))
	check.Must(t, err)
	go func() {
		<-started
		cancel()
	}()
	if resp, err := web.Client().Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("an answer came")
	}
	if err := check.Received(t, ended, "the end of a call without its client"); err == nil {
		t.Error("the call was not cancelled")
	}
}
