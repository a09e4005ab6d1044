package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	asEvents = "text/event-stream"
	asLines  = "application/x-ndjson"
)

// ask sends a request below /v1/capabilities/; header holds names and values in turn.
func ask(ctx context.Context, t *testing.T, client *http.Client, g *gatewaytest.Gateway, method, path, body string,
	header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, g.URL("/v1/capabilities/"+path), strings.NewReader(body))
	check.Must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = resp.Body.Close() })
	return resp
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(text)
}

// TestStreamsByHTTP: every way to stream a tool, over both versions of HTTP, in either dialect, is one call.
func TestStreamsByHTTP(t *testing.T) {
	t.Parallel()
	for _, dialect := range []call.Dialect{call.Doc, call.Live} {
		capability := gatewaytest.NewCapability("b1")
		backend := capability.Serve(t, dialect)
		g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{backend.Addr}, Sources: []string{gatewaytest.Echo}}}})
		calls, at := 0, 0
		for _, protocol := range protocols {
			client := protocol.client(g, t)
			for _, test := range []struct {
				name, method, path, body, accept string
				status                           int
				typ, want                        string
				away                             bool // it does not reach the backend
			}{
				{"events", "POST", "caps/stream", `{"tool_name":"echo","args":{}}`, "", 200, asEvents,
					"id: 1\nevent: chunk\ndata: {\"data_base64\":\"ew==\"}\n\nid: 2\nevent: chunk\ndata: " +
						"{\"data_base64\":\"fQ==\"}\n\nid: 3\nevent: done\ndata: {}\n\n", false},
				{"lines", "POST", "caps/invoke", `{"tool_name":"echo"}`, asLines, 200, asLines,
					`{"event":"chunk","id":"1","data_base64":"ew=="}` + "\n" +
						`{"event":"chunk","id":"2","data_base64":"fQ=="}` + "\n" + `{"event":"done","id":"3"}` + "\n",
					false},
				{"GET", "GET", "caps/tools/echo/stream?args=%7B%7D", "", asLines, 200, asLines,
					`{"event":"chunk","id":"1","data_base64":"ew=="}` + "\n…", false},
				{"GET of another", "GET", "caps/tools/fail/stream", "", "", 405, "", `"reason":"METHOD_NOT_ALLOWED"`,
					true},
				{"GET of nothing", "GET", "nope/tools/fail/stream", "", "", 404, "", `"reason":"CAPABILITY_UNKNOWN"`,
					true},
				{"cut off", "POST", "caps/tools/cut", "{}", asLines, 200, asLines,
					`…"event":"error","id":"2","problem":{"type":`, false},
				{"tool error", "POST", "caps/tools/fail/stream", "", asLines, 200, asLines,
					`{"event":"done","id":"1","error":"the tool failed for {}"}` + "\n", false},
				{"backend's own error", "POST", "caps/stream", `{"tool_name":"break"}`, "", 500, "",
					`"code":"DATA_LOSS","reason":"BROKE"`, false},
				{"plainly", "POST", "caps/tools/echo", `{"n":1E+300,"ö":[]}`, "", 200, "application/json",
					`{"n":1E+300,"ö":[]}`, false},
				{"plain tool error", "POST", "caps/tools/fail", ``, "", 200, "application/json",
					`{"error":"the tool failed for {}"}` + "\n", false},
				{"unknown capability", "POST", "nope/tools/echo", `{}`, asEvents, 404, "",
					`"reason":"CAPABILITY_UNKNOWN"`, true},
				{"health", "GET", "caps/health", ``, "", 200, "application/json",
					`{"ready":true,"message":"1 of 1 backends ready"}` + "\n", true},
				{"health of nothing", "GET", "nope/health", ``, "", 404, "", `"reason":"CAPABILITY_UNKNOWN"`, true},
			} {
				header := []string{"Accept", test.accept}
				if test.accept == "" {
					header = nil
				}
				resp := ask(t.Context(), t, client, g, test.method, test.path, test.body, header...)
				body, typ := bodyOf(t, resp), test.typ
				if typ == "" {
					typ = "application/problem+json"
				}
				pre, open := strings.CutSuffix(test.want, "…")
				part, middle := strings.CutPrefix(test.want, "…")
				if resp.StatusCode != test.status || resp.ProtoMajor != protocol.major ||
					resp.Header.Get("Content-Type") != typ ||
					body != test.want && !(open && strings.HasPrefix(body, pre)) &&
						!((middle || test.typ == "") && strings.Contains(body, part)) {
					t.Errorf("%s backend, %s, %s: %s %s %q", dialect, protocol.name, test.name, resp.Status,
						resp.Header.Get("Content-Type"), body)
				}
				calls++
				if !test.away {
					at++
				}
			}
		}
		if lines := g.Log.Calls(t, calls); len(lines) != calls || len(capability.Seen()) != at {
			t.Errorf("%s backend: %d calls in the log, %d at the backend; want %d and %d", dialect, len(lines),
				len(capability.Seen()), calls, at)
		}
	}
}

// TestStreamsNeedConsent: a streaming call requires approval like any other, and may wait for it.
func TestStreamsNeedConsent(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	client := f.gateway.HTTP1(t)
	for _, path := range []string{"caps/tools/echo/stream", "caps/tools/echo"} {
		resp := ask(t.Context(), t, client, f.gateway, "POST", path, `{"n":"`+path+`"}`)
		body := bodyOf(t, resp)
		asked := d.next(t, approvals.EventCreated)
		if resp.StatusCode != 202 || resp.Header.Get("Location") != "/v1/approvals/"+asked.ID ||
			!strings.Contains(body, `"status":"approval_required"`) {
			t.Errorf("%s: %s %v %s", path, resp.Status, resp.Header, body)
		}
		waits := make(chan *http.Response, 1)
		go func() {
			waits <- ask(t.Context(), t, client, f.gateway, "POST", path, `{"m":"`+path+`"}`, "Prefer", "wait=60")
		}()
		if _, err := d.Approve(t.Context(), "default", d.next(t, approvals.EventCreated).ID,
			approvals.Answer{}); err != nil {
			t.Fatal(err)
		}
		resp = check.Received(t, waits, "the answer of the call that waits")
		if body := bodyOf(t, resp); resp.StatusCode != 200 || resp.Header.Get("Preference-Applied") != "wait=60" ||
			strings.Contains(path, "stream") && !strings.Contains(body, "event: done") {
			t.Errorf("%s: %s %v %s", path, resp.Status, resp.Header, body)
		}
	}
}

// TestStreamsAreCounted: the rate limit is the same for every kind of call.
func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	f := limited(t, call.Doc, call.Doc, tenant.Limits{Bounds: tenant.Bounds{PerMonth: 3}})
	client := f.gateway.HTTP2(t)
	for i, path := range []string{"caps/tools/echo", "caps/tools/echo/stream", "caps/health", "caps/stream",
		"caps/tools/echo", "caps/tools/echo/stream"} {
		method, body := "POST", `{"tool_name":"echo"}`
		if path == "caps/health" {
			method = "GET"
		}
		resp := ask(t.Context(), t, client, f.gateway, method, path, body)
		if text := bodyOf(t, resp); resp.StatusCode != 200 && i < 4 || i >= 4 && (resp.StatusCode != 429 ||
			!strings.Contains(text, "BUDGET_EXHAUSTED") || resp.Header.Get("RateLimit") == "") {
			t.Errorf("call %d, %s: %s %s", i, path, resp.Status, text)
		}
	}
}

// TestStreamsNeedAKeyAndAGrant: without a key a stream is rejected, with one it gets what its tenant is granted,
// and GET reveals no more than POST.
func TestStreamsNeedAKeyAndAGrant(t *testing.T) {
	t.Parallel()
	r, capability := newKeyring(), gatewaytest.NewCapability("b1")
	keys := tenant.NewKeys(nil)
	keys.Replace(r.keys, settings(t, map[string][]string{"acme": {"caps"}}), nil)
	addr := capability.Serve(t, call.Doc).Addr
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{addr}, Sources: []string{"*"}},
			{Capability: "secret", Backends: []string{addr}, Sources: []string{"*"}},
			{Capability: "closed", Backends: []string{addr}}},
		Authenticator: keys,
	})
	client := g.HTTP1(t)
	tell := func(capability string, header ...string) string {
		resp := ask(t.Context(), t, client, g, "GET", capability+"/tools/echo/stream", "",
			append(header, "X-Request-Id", "r")...) // it is in the response
		return resp.Status + " " + strings.ReplaceAll(bodyOf(t, resp), capability, "it")
	}
	key := []string{"Authorization", "Bearer " + r.credentials["acme"]}
	for _, name := range []string{"caps", "secret", "closed", "nope"} {
		if got := tell(name); !strings.HasPrefix(got, "401 ") || got != tell("nope") {
			t.Errorf("%s without a key: %s", name, got)
		}
	}
	if got := tell("caps", key...); !strings.HasPrefix(got, "200 OK id: 1\n") {
		t.Error(got)
	}
	for _, name := range []string{"secret", "closed", "nope"} {
		if got := tell(name, key...); !strings.HasPrefix(got, "404 ") || got != tell("nope", key...) {
			t.Errorf("%s, not granted: %s", name, got)
		}
	}
}

// scripted is a capability whose streams follow the test's script.
type scripted struct {
	docpb.UnimplementedCapabilityServer
	stream func(grpc.ServerStreamingServer[docpb.InvokeChunk]) error
}

func (s *scripted) StreamInvoke(_ *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	return s.stream(stream)
}

func (*scripted) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

// behindScript returns a gateway before a capability that sends a chunk and then runs goOn.
func behindScript(t *testing.T, o gatewaytest.Options,
	goOn func(grpc.ServerStreamingServer[docpb.InvokeChunk]) error) (*gatewaytest.Gateway, *gatewaytest.Backend) {
	t.Helper()
	s := &scripted{stream: func(stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
		if err := stream.Send(&docpb.InvokeChunk{Data: []byte("1")}); err != nil {
			return err
		}
		return goOn(stream)
	}}
	backend := gatewaytest.Serve(t, func(g *grpc.Server) { docpb.RegisterCapabilityServer(g, s) })
	o.Fleets = []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}}
	return gatewaytest.Start(t, o), backend
}

// begin starts a stream of lines and reads its first one.
func begin(ctx context.Context, t *testing.T, client *http.Client, g *gatewaytest.Gateway) (*http.Response,
	*bufio.Reader) {
	t.Helper()
	resp := ask(ctx, t, client, g, "POST", "caps/tools/t/stream", "", "Accept", asLines)
	read := bufio.NewReader(resp.Body)
	if line, err := read.ReadString('\n'); err != nil || line != `{"event":"chunk","id":"1","data":1}`+"\n" {
		t.Fatalf("got %s %q, %v", resp.Status, line, err)
	}
	return resp, read
}

// TestStreamsThatEndEarly: a stream that ends early says why, whatever ended it.
func TestStreamsThatEndEarly(t *testing.T) {
	t.Parallel()
	untilLeft := func(stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	for _, protocol := range protocols {
		for name, end := range map[string]func(*gatewaytest.Gateway, *gatewaytest.Backend){
			"UPSTREAM_LOST": func(_ *gatewaytest.Gateway, b *gatewaytest.Backend) { b.Stop() },
			"DRAINING":      func(g *gatewaytest.Gateway, _ *gatewaytest.Backend) { g.Drain() },
		} {
			t.Run(protocol.name+" "+name, func(t *testing.T) {
				t.Parallel()
				g, backend := behindScript(t, gatewaytest.Options{Drain: &gateway.Drain{Timeout: time.Millisecond}},
					untilLeft)
				_, read := begin(t.Context(), t, protocol.client(g, t), g)
				end(g, backend)
				rest, err := io.ReadAll(read)
				if err == nil && (!strings.HasPrefix(string(rest), `{"event":"error","id":"2","problem":{`) ||
					!strings.Contains(string(rest), name)) {
					t.Errorf("got %q", rest)
				}
				if err != nil && name != "DRAINING" { // then the connection is cut too
					t.Error(err)
				}
			})
		}
	}
}

// TestReadersOfStreamsLeave: when the reader leaves, the call ends at the capability and is recorded as
// canceled.
func TestReadersOfStreamsLeave(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		ended := make(chan struct{})
		g, _ := behindScript(t, gatewaytest.Options{},
			func(stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
				<-stream.Context().Done()
				close(ended)
				return stream.Context().Err()
			})
		ctx, leave := context.WithCancel(t.Context())
		begin(ctx, t, protocol.client(g, t), g)
		leave()
		check.Received(t, ended, "the capability to learn that its caller has left")
		if line := g.Log.Calls(t, 1)[0]; line.Text("code") != "Canceled" && line.Text("code") != "CANCELLED" {
			t.Errorf("%s: %v", protocol.name, line)
		}
	}
}

// TestSlowReadersOfStreams: slow readers slow the capability down, and are cut off when they do not read.
func TestSlowReadersOfStreams(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		ended := make(chan int, 1)
		piece := &docpb.InvokeChunk{Data: []byte(strings.Repeat("x", 64<<10))}
		g, _ := behindScript(t, gatewaytest.Options{REST: rest.Config{Stall: 2 * time.Second}},
			func(stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
				sent := 0
				for ; sent < 10_000 && stream.Send(piece) == nil; sent++ {
				}
				ended <- sent
				return nil
			})
		begin(t.Context(), t, holdsLittle(protocol.client(g, t)), g)
		// Sockets hold some pieces.
		if sent := check.Received(t, ended, "the end of a stream over "+protocol.name); sent > 200 {
			t.Errorf("%s: %d pieces were sent without a reader", protocol.name, sent)
		}
	}
}

// holdsLittle makes a client buffer little more than is read from it.
func holdsLittle(client *http.Client) *http.Client {
	transport, _ := client.Transport.(*http.Transport)
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 128 << 10}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok {
			err = tcp.SetReadBuffer(16 << 10)
		}
		return conn, err
	}
	return client
}
