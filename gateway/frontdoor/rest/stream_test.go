package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	streamPath = "/v1/capabilities/weather/stream"
	toolPath   = "/v1/capabilities/weather/tools/t"
)

type chunks = grpc.ServerStreamingServer[docpb.InvokeChunk]

// sends returns a tool that streams some chunks and ends with err.
func sends(err error, all ...*docpb.InvokeChunk) func(*docpb.InvokeRequest, chunks) error {
	return func(_ *docpb.InvokeRequest, stream chunks) error {
		for _, c := range all {
			if err := stream.Send(c); err != nil {
				return err
			}
		}
		return err
	}
}

func chunk(data string) *docpb.InvokeChunk { return &docpb.InvokeChunk{Data: []byte(data)} }

func last(data, fault string) *docpb.InvokeChunk {
	return &docpb.InvokeChunk{Data: []byte(data), Error: fault, Done: true}
}

func TestStreamIsWritten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		chunks        []*docpb.InvokeChunk
		events, lines string
	}{
		{"JSON as it is", []*docpb.InvokeChunk{chunk(` {"n":1.10,"z":1e400} `), last(`[ 1 ]`, "")},
			"id: 1\nevent: chunk\ndata: {\"data\":{\"n\":1.10,\"z\":1e400}}\n\nid: 2\nevent: chunk\ndata: " +
				"{\"data\":[ 1 ]}\n\nid: 3\nevent: done\ndata: {}\n\n",
			`{"event":"chunk","id":"1","data":{"n":1.10,"z":1e400}}` + "\n" +
				`{"event":"chunk","id":"2","data":[ 1 ]}` + "\n" + `{"event":"done","id":"3"}` + "\n"},
		{"on one line", []*docpb.InvokeChunk{chunk("{\n\t\"a\":\r\n 1\n}\n"), last("", "")},
			"id: 1\nevent: chunk\ndata: {\"data\":{ \t\"a\":   1 }}\n\nid: 2\nevent: done\ndata: {}\n\n",
			"{\"event\":\"chunk\",\"id\":\"1\",\"data\":{ \t\"a\":   1 }}\n{\"event\":\"done\",\"id\":\"2\"}\n"},
		{"not JSON", []*docpb.InvokeChunk{chunk("hel"), chunk("\xff\n"), last(`"\xff"`, "")},
			"id: 1\nevent: chunk\ndata: {\"data_base64\":\"aGVs\"}\n\nid: 2\nevent: chunk\ndata: " +
				"{\"data_base64\":\"/wo=\"}\n\nid: 3\nevent: chunk\ndata: {\"data_base64\":\"Ilx4ZmYi\"}\n\nid: " +
				"4\nevent: done\ndata: {}\n\n", ""},
		{"a tool that fails", []*docpb.InvokeChunk{chunk("1"), chunk(""), last("", "no <such>\n\"city\"")},
			"id: 1\nevent: chunk\ndata: {\"data\":1}\n\nid: 2\nevent: done\ndata: {\"error\":\"no " +
				"<such>\\n\\\"city\\\"\"}\n\n", `{"event":"chunk","id":"1","data":1}` + "\n" +
				`{"event":"done","id":"2","error":"no <such>\n\"city\""}` + "\n"},
		{"an error ends it without done", []*docpb.InvokeChunk{{Error: "e"}},
			"id: 1\nevent: done\ndata: {\"error\":\"e\"}\n\n", ""},
		{"nothing", []*docpb.InvokeChunk{last("", "")}, "id: 1\nevent: done\ndata: {}\n\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &backend{stream: sends(nil, tt.chunks...)}
			web := door(t, b, rest.Config{EventSource: func(string, string) bool { return true }})
			for _, way := range []struct{ method, path, body, accept, typ, want string }{
				{"POST", streamPath, `{"tool_name":"t"}`, "", resttest.EventStream, tt.events},
				{"POST", streamPath, `{"tool_name":"t"}`, resttest.JSONLines, resttest.JSONLines, tt.lines},
				{"POST", invokePath, `{"tool_name":"t"}`, resttest.EventStream, resttest.EventStream, tt.events},
				{"POST", invokePath, `{"tool_name":"t"}`, resttest.JSONLines, resttest.JSONLines, tt.lines},
				{"POST", toolPath, `{}`, resttest.EventStream, resttest.EventStream, tt.events},
				{"POST", toolPath + "/stream", `{}`, "*/*", resttest.EventStream, tt.events},
				{"GET", toolPath + "/stream?args=%7B%7D", ``, resttest.EventStream, resttest.EventStream, tt.events},
			} {
				var header []string
				if way.accept != "" {
					header = []string{"Accept", way.accept}
				}
				got := resttest.Send(t, web, way.method, way.path, way.body, header...)
				if got.Status != 200 || got.Header.Get("Content-Type") != way.typ ||
					way.want != "" && got.Body != way.want {
					t.Errorf("%s %s, %s: %d %s %q; want %q", way.method, way.path, way.accept, got.Status,
						got.Header.Get("Content-Type"), got.Body, way.want)
				}
				if got.Header.Get("Cache-Control") != "no-cache, no-transform" ||
					got.Header.Get("X-Accel-Buffering") != "no" || got.Header.Get("Vary") != "Accept" {
					t.Errorf("%s %s: %v", way.method, way.path, got.Header)
				}
				if req, _, _ := b.last(); req.GetCapabilityId() != "weather" || req.GetToolName() != "t" ||
					string(req.GetArgsJson()) != "{}" || string(req.GetConfigJson()) != "{}" {
					t.Errorf("%s %s: the backend got %v", way.method, way.path, req)
				}
			}
		})
	}
}

// TestStreamThatBreaks says so: by a status where nothing was sent yet, else by its last record.
func TestStreamThatBreaks(t *testing.T) {
	t.Parallel()
	lost, err := status.New(codes.Unavailable, "lost").WithDetails(&errdetails.ErrorInfo{Reason: "UPSTREAM_LOST",
		Domain: "capgate.dev"})
	check.Must(t, err)
	for _, tt := range []struct {
		name   string
		chunks []*docpb.InvokeChunk
		err    error
		status int
		code   string
		reason string
	}{
		{"without done", nil, nil, 502, "DATA_LOSS", "ANSWER_CUT_OFF"},
		{"with an error", nil, lost.Err(), 501, "UNAVAILABLE", "UPSTREAM_LOST"},
		{"after done", []*docpb.InvokeChunk{last("", "")}, lost.Err(), 501, "UNAVAILABLE", "UPSTREAM_LOST"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			web := door(t, &backend{stream: sends(tt.err, tt.chunks...)}, rest.Config{})
			got := resttest.Send(t, web, "POST", streamPath, `{"tool_name":"t"}`)
			if p := resttest.ProblemOf(t, got); got.Status != tt.status && tt.err == nil || p.Code != tt.code ||
				p.Reason != tt.reason {
				t.Errorf("before the first record: %d %s", got.Status, got.Body)
			}
			web = door(t, &backend{stream: sends(tt.err, append([]*docpb.InvokeChunk{chunk("1")}, tt.chunks...)...)},
				rest.Config{})
			got = resttest.Send(t, web, "POST", streamPath, `{"tool_name":"t"}`, "Accept", resttest.JSONLines)
			event, p := resttest.LastRecord(t, got.Body)
			if got.Status != 200 || event != "error" || p.Code != tt.code || p.Reason != tt.reason || p.Status < 500 ||
				p.Title == "" || p.Type == "" {
				t.Errorf("after it: %d %s; event %+v; p %+v", got.Status, got.Body, event, p)
			}
			got = resttest.Send(t, web, "POST", streamPath, `{"tool_name":"t"}`)
			if !strings.Contains(got.Body, "\n\nid: 2\nevent: error\ndata: {\"problem\":{\"type\":") ||
				!strings.HasSuffix(got.Body, "}}\n\n") {
				t.Errorf("as events: %q", got.Body)
			}
		})
	}
}

// TestStreamIsRefused before anything is called, or sent.
func TestStreamIsRefused(t *testing.T) {
	t.Parallel()
	b := &backend{}
	web := door(t, b, rest.Config{EventSource: func(string, string) bool { return true }})
	get := toolPath + "/stream"
	for _, tt := range []struct {
		method, path, body string
		header             []string
		status             int
		reason             string
	}{
		{"POST", streamPath, `{"tool_name":"t"}`, []string{"Accept", "application/json"}, 406, "NOT_ACCEPTABLE"},
		{"POST", streamPath, `{"tool_name":"t"}`, []string{"Accept", "text/event-stream;q=0"}, 406, "NOT_ACCEPTABLE"},
		{"POST", streamPath, `{"tool_name":"t"}`,
			[]string{"Accept", "text/event-stream;q=0, application/x-ndjson;q=0, */*"}, 406, "NOT_ACCEPTABLE"},
		{"POST", streamPath, `{"tool_name":"t"}`, []string{"Accept", "text/event-stream;q=0, text/*"}, 406,
			"NOT_ACCEPTABLE"},
		{"POST", streamPath, `{}`, nil, 400, "INVALID_BODY"},
		{"POST", streamPath, `[`, nil, 400, "INVALID_BODY"},
		{"POST", invokePath, `{"tool_name":7}`, []string{"Accept", resttest.EventStream}, 400, "INVALID_BODY"},
		{"POST", toolPath, `[]`, []string{"Accept", resttest.EventStream}, 400, "INVALID_BODY"},
		{"POST", toolPath, `null`, nil, 400, "INVALID_BODY"},
		{"POST", toolPath, `{"a":1,"a":2}`, nil, 400, "AMBIGUOUS_ARGUMENTS"},
		{"POST", toolPath, `{}`, []string{"X-Thread-Id", "ü"}, 400, "INVALID_HEADER"},
		{"POST", toolPath, `{}`, []string{"Content-Type", "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"POST", "/v1/capabilities/weather/tools/%ff", `{}`, nil, 404, "NO_SUCH_PATH"},
		{"POST", "/v1/capabilities/weather/tools//stream", `{}`, nil, 404, "NO_SUCH_PATH"},
		{"GET", get + "?args=[]", "", nil, 400, "INVALID_QUERY"},
		{"GET", get + "?args={}&args={}", "", nil, 400, "INVALID_QUERY"},
		{"GET", get + "?location=Berlin", "", nil, 400, "INVALID_QUERY"},
		{"GET", get, "", []string{"Accept", "application/json"}, 406, "NOT_ACCEPTABLE"},
		{"GET", get, "", []string{"Sec-Fetch-Site", "cross-site"}, 500, "CROSS_SITE"},
		{"GET", get, "", []string{"Sec-Fetch-Site", "same-site"}, 500, "CROSS_SITE"},
		{"GET", get, "", []string{"Origin", "https://elsewhere.example"}, 500, "CROSS_SITE"},
	} {
		got := resttest.Send(t, web, tt.method, tt.path, tt.body, tt.header...)
		if tt.reason == "CROSS_SITE" {
			tt.status = 403
		}
		if p := resttest.ProblemOf(t, got); got.Status != tt.status || p.Reason != tt.reason {
			t.Errorf("%s %s %q: %d %s", tt.method, tt.path, tt.header, got.Status, got.Body)
		}
	}
	if req, _, _ := b.last(); req != nil {
		t.Errorf("a call went through: %v", req)
	}
	for _, site := range []string{"same-origin", "none"} {
		if got := resttest.Send(t, web, "GET", get, "", "Sec-Fetch-Site", site); got.Status != 200 {
			t.Errorf("%s: %d %s", site, got.Status, got.Body)
		}
	}
}

// TestStreamIsNotBegunAgain: a client that reconnects to a stream starts no second call.
func TestStreamIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	b := &backend{}
	web := door(t, b, rest.Config{EventSource: func(string, string) bool { return true }})
	for _, way := range []struct{ method, path, accept string }{
		{"GET", toolPath + "/stream", resttest.EventStream}, {"GET", toolPath + "/stream?last_event_id=2",
			resttest.EventStream},
		{"POST", toolPath + "/stream", ""}, {"POST", streamPath, resttest.JSONLines},
		{"POST", invokePath, resttest.EventStream}, {"POST", toolPath, resttest.EventStream},
	} {
		got := resttest.Send(t, web, way.method, way.path, `{"tool_name":"t"}`, "Last-Event-ID", "0", "Accept",
			way.accept)
		if got.Status != 204 || got.Body != "" {
			t.Errorf("%s %s: %d %s", way.method, way.path, got.Status, got.Body)
		}
	}
	if req, _, _ := b.last(); req != nil {
		t.Errorf("a call went through: %v", req)
	}
}

// TestToolsThatGETMayNotCall look to others as all else does that there is not.
func TestToolsThatGETMayNotCall(t *testing.T) {
	t.Parallel()
	b := &backend{health: func(ctx context.Context) (*docpb.HealthResponse, error) {
		return &docpb.HealthResponse{}, nil
	}}
	web := door(t, b, rest.Config{EventSource: func(c, tool string) bool { return c == "weather" && tool == "reads" }})
	if got := resttest.Send(t, web, "GET", "/v1/capabilities/weather/tools/reads/stream", ""); got.Status != 200 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	got := resttest.Send(t, web, "GET", "/v1/capabilities/weather/tools/writes/stream", "")
	if p := resttest.ProblemOf(t, got); got.Status != 405 || got.Header.Get("Allow") != "POST, OPTIONS" ||
		p.Reason != "METHOD_NOT_ALLOWED" {
		t.Errorf("%d %v %s; p %+v", got.Status, got.Header, got.Body, p)
	}
	if req, _, _ := b.last(); req.GetToolName() != "reads" {
		t.Errorf("called: %v", req)
	}
	b = &backend{health: func(ctx context.Context) (*docpb.HealthResponse, error) {
		return nil, status.Error(codes.NotFound, "what?")
	}}
	for _, name := range []string{"weather", "w%C3%A4"} {
		if got := resttest.Send(t, door(t, b, rest.Config{}), "GET", "/v1/capabilities/"+name+"/tools/t/stream",
			""); resttest.ProblemOf(t, got).Status != 404 {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
}

// TestStreamBeats: a stream without data sends heartbeats, also before its first chunk.
func TestStreamBeats(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string][]string{resttest.EventStream: {"id: 0", ":", "", ":", ""},
		resttest.JSONLines: {`{"event":"heartbeat"}`, `{"event":"heartbeat"}`}} {
		goOn := make(chan struct{})
		b := &backend{stream: func(_ *docpb.InvokeRequest, stream chunks) error {
			<-goOn
			return status.Error(codes.Aborted, "no")
		}}
		resp := open(t.Context(), t, door(t, b, rest.Config{Beat: time.Millisecond}).URL, typ)
		read := bufio.NewScanner(resp.Body)
		for i, line := range want {
			if !read.Scan() || read.Text() != line {
				t.Errorf("%s: line %d is %q, %v; want %q", typ, i, read.Text(), read.Err(), line)
			}
		}
		close(goOn)
		rest, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		if !bytes.Contains(rest, []byte(`"code":"ABORTED"`)) && !strings.Contains(read.Text(), "ABORTED") {
			t.Errorf("%s: %q", typ, rest)
		}
	}
}

// open begins a stream.
func open(ctx context.Context, t *testing.T, url, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", url+streamPath, strings.NewReader(`{"tool_name":"t"}`))
	check.Must(t, err)
	req.Header.Set("Accept", accept)
	resp, err := clienttest.HTTP.Do(req)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = resp.Body.Close() })
	return resp
}

// TestClientLeavesStream: the capability's call is canceled when the client leaves.
func TestClientLeavesStream(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	b := &backend{stream: func(_ *docpb.InvokeRequest, stream chunks) error {
		if err := stream.Send(chunk(`"first"`)); err != nil {
			return err
		}
		<-stream.Context().Done()
		ended <- stream.Context().Err()
		return nil
	}}
	ctx, leave := context.WithCancel(t.Context())
	resp := open(ctx, t, door(t, b, rest.Config{}).URL, resttest.JSONLines)
	line, err := bufio.NewReader(resp.Body).ReadString('\n') // arrives before the call has ended
	if err != nil || line != `{"event":"chunk","id":"1","data":"first"}`+"\n" {
		t.Errorf("%q, %v", line, err)
	}
	leave()
	if err := check.Received(t, ended, "the end of the call"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestSlowReaderOfStream stops the capability, and is cut off when it reads nothing for too long.
func TestSlowReaderOfStream(t *testing.T) {
	t.Parallel()
	sent, ended := 0, make(chan error, 1)
	b := &backend{stream: func(_ *docpb.InvokeRequest, stream chunks) error {
		piece := chunk(`"` + strings.Repeat("x", 64<<10) + `"`)
		var err error
		for ; err == nil && sent < 10_000; sent++ {
			err = stream.Send(piece)
		}
		ended <- err
		return err
	}}
	addr := strings.TrimPrefix(door(t, b, rest.Config{Stall: 50 * time.Millisecond}).URL, "http://")
	conn, err := net.Dial("tcp", addr)
	check.Must(t, err)
	defer conn.Close()
	check.Must(t, conn.(*net.TCPConn).SetReadBuffer(16<<10))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 17\r\n\r\n%s", streamPath, addr,
		`{"tool_name":"t"}`)
	check.Must(t, err)
	// Sockets hold some pieces.
	if err := check.Received(t, ended, "the end of the call"); err == nil || sent > 200 {
		t.Errorf("%d pieces went to nobody, %v", sent, err)
	}
}

// TestStalledBody: a client that stops in the middle of a body gets an error.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix(door(t, new(backend), rest.Config{Stall: 50 * time.Millisecond}).URL, "http://")
	for _, path := range []string{invokePath, toolPath, streamPath} {
		conn, err := net.Dial("tcp", addr)
		check.Must(t, err)
		defer conn.Close()
		check.Must(t, conn.SetDeadline(time.Now().Add(check.Patience)))
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 17\r\n\r\n{", path,
			addr); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(path, err)
		}
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), "BODY_STALLED") {
			t.Errorf("%s: %s %s", path, resp.Status, text)
		}
	}
}
