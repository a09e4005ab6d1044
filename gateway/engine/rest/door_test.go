package rest_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	enginerest "github.com/capgate/capgate/gateway/engine/rest"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
)

func doorTo(t testing.TB, register func(*grpc.Server), cfg rest.Config) *httptest.Server {
	t.Helper()
	cfg.Wings = []rest.Wing{enginerest.Routes}
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(32 << 20))
	register(srv)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	h, err := rest.New(conn, runtime.HTTPStatusFromCode, cfg)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.Close()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		<-done
	})
	return web
}

type answer struct {
	status int
	header http.Header
	body   string
}

// send makes one request; header holds names and values in turn.
func send(t testing.TB, web *httptest.Server, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(got)}
}

// The forms of streams.
const (
	eventStream = "text/event-stream"
	jsonLines   = "application/x-ndjson"
)

// problemOf is the problem in an answer; the test fails if there is none.
func problemOf(t testing.TB, a answer) problem.Problem {
	t.Helper()
	var p problem.Problem
	dec := json.NewDecoder(strings.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("not a problem: %v, %v, %q", err, a.header, a.body)
	}
	if p.Status != a.status || p.Type == "" || p.Title == "" || p.Code == "" || p.RequestID == "" ||
		p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("%d %+v", a.status, p)
	}
	return p
}

// lastRecord is the last line of a stream of lines.
func lastRecord(t *testing.T, body string) (event string, p problem.Problem) {
	t.Helper()
	all := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	var r struct {
		Event   string
		Problem problem.Problem
	}
	if err := json.Unmarshal([]byte(all[len(all)-1]), &r); err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	return r.Event, r.Problem
}
