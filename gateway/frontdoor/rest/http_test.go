package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

func TestMethods(t *testing.T) {
	t.Parallel()
	b := &backend{health: func(context.Context) (*docpb.HealthResponse,
		error) {
		return &docpb.HealthResponse{Ready: true}, nil
	}}
	web := door(t, b, rest.Config{EventSource: func(string, string) bool { return true }})
	const health = "/v1/capabilities/weather/health"
	get, head := resttest.Send(t, web, "GET", health, ""), resttest.Send(t, web, "HEAD", health, "")
	if get.Status != 200 || head.Status != 200 || head.Body != "" ||
		head.Header.Get("Content-Length") != get.Header.Get("Content-Length") ||
		head.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %d %v, and not %v", head.Status, head.Header, get.Header)
	}
	for path, want := range map[string]string{
		health: "GET, HEAD, OPTIONS", invokePath: "POST, OPTIONS", toolPath + "/stream": "GET, POST, OPTIONS",
		"/v1/capabilities/weather/artifacts/a": "GET, HEAD, OPTIONS", "/docs/errors": "GET, HEAD, OPTIONS",
	} {
		if got := resttest.Send(t, web, "OPTIONS", path, ""); got.Status != 204 || got.Header.Get("Allow") != want ||
			got.Header.Get("X-Request-Id") == "" {
			t.Errorf("OPTIONS %s: %d %v", path, got.Status, got.Header)
		}
		if got := resttest.Send(t, web, "PUT", path, ""); got.Status != 405 || got.Header.Get("Allow") != want {
			t.Errorf("PUT %s: %d %v", path, got.Status, got.Header)
		}
	}
	if got := resttest.Send(t, web, "HEAD", toolPath+"/stream?args={}", ""); got.Status != 405 {
		t.Errorf("HEAD of a stream: %d", got.Status)
	}
	if req, _, _ := b.last(); req != nil {
		t.Error("a HEAD made a call")
	}
	for _, path := range []string{health + "/", "/v1/capabilities/weather/invoke/", "/v1/nothing",
		"//v1/capabilities"} {
		if got := resttest.Send(t, web, "GET", path, ""); got.Status != 404 ||
			resttest.ProblemOf(t, got).Reason != "NO_SUCH_PATH" {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
}

func TestIdsInPaths(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{})
	for path, want := range map[string]string{"a%20b": "a b", "a%25b": "a%b", "a%3Ab": "a:b", "%C3%BC": "ü",
		"a+b": "a+b", "a%3Fb": "a?b"} {
		got := resttest.Send(t, web, "POST", "/v1/capabilities/weather/tools/"+path, `{}`)
		if req, _, _ := b.last(); got.Status != 200 || req.GetToolName() != want {
			t.Errorf("%s: %d, %q, %s", path, got.Status, req.GetToolName(), got.Body)
		}
	}
	for _, path := range []string{"%ff", "a%2Fb"} { // a slash parts segments, however it is written
		if got := resttest.Send(t, web, "POST", "/v1/capabilities/weather/tools/"+path, `{}`); got.Status != 404 {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
}

// TestRawRequests: requests as clients in other languages write them.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	web := door(t, new(backend), rest.Config{})
	const head = " HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n"
	for name, tt := range map[string]struct {
		request string
		status  int
	}{
		"chunked": {"POST " + toolPath + head +
			"Transfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n", 200},
		"absolute target":  {"POST http://gateway.test" + toolPath + head + "Content-Length: 2\r\n\r\n{}", 200},
		"no such escape":   {"POST " + toolPath + "%zz" + head + "Content-Length: 2\r\n\r\n{}", 400},
		"two lengths":      {"POST " + toolPath + head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
		"HTTP/1.0":         {"POST " + toolPath + " HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}", 200},
		"unknown method":   {"BREW " + toolPath + head + "\r\n", 405},
		"of a larger body": {"POST " + toolPath + head + "Content-Length: 99999999999\r\n\r\n", 413},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			check.Must(t, err)
			defer func() { _ = conn.Close() }()
			check.Must(t, conn.SetDeadline(time.Now().Add(check.Patience)))
			if _, err := fmt.Fprint(conn, tt.request); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			check.Must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("%d, want %d", resp.StatusCode, tt.status)
			}
		})
	}
}

// TestExpectContinue: a client that sends Expect: 100-continue sends no body that would be rejected.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	web := door(t, new(backend), rest.Config{})
	for typ, want := range map[string]string{"application/json": "HTTP/1.1 100 Continue",
		"text/plain": "HTTP/1.1 415 Unsupported Media Type"} {
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		check.Must(t, err)
		check.Must(t, conn.SetDeadline(time.Now().Add(check.Patience)))
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Type: %s\r\n"+
			"Content-Length: 2\r\n\r\n", toolPath, typ); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%s: %q, %v", typ, line, err)
		}
		_ = conn.Close()
	}
}

// FuzzRequest: whatever the request, there is an answer, and one that is an error is a problem with an id.
func FuzzRequest(f *testing.F) {
	f.Add("POST", toolPath, "X-Request-Id", "r", []byte(`{}`))
	f.Add("POST", invokePath, "Content-Encoding", "gzip", []byte("\x1f\x8b\x08"))
	f.Add("HEAD", "/v1/capabilities/%2F/health", "Accept-Encoding", "gzip;q=x", []byte{})
	f.Add("GET", "/v1/capabilities?page_size=x", "Prefer", "wait=1;;", []byte("x"))
	f.Add("OPTIONS", "/docs/errors", "Grpc-Timeout", "1S", []byte{})
	failed := &backend{invoke: func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		return nil, status.Error(codes.NotFound, "no")
	}, health: func(context.Context) (*docpb.HealthResponse, error) { return nil, status.Error(codes.NotFound, "no") }}
	web := door(f, failed, rest.Config{})
	f.Fuzz(func(t *testing.T, method, path, name, value string, body []byte) {
		r, err := http.NewRequestWithContext(t.Context(), method, web.URL, strings.NewReader(string(body)))
		if err != nil {
			return
		}
		if r.URL, err = r.URL.Parse(path); err != nil {
			return
		}
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		w := httptest.NewRecorder()
		web.Config.Handler.ServeHTTP(w, r)
		grpc := strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/grpc")
		if w.Code < 200 || w.Code > 599 || w.Header().Get("X-Request-Id") == "" && !grpc {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	})
}

// TestRootLeadsBrowsers: a browser at the root gets to the page of its tools; a program gets the problem of an unknown
// path.
func TestRootLeadsBrowsers(t *testing.T) {
	t.Parallel()
	web := door(t, &backend{}, rest.Config{})
	web.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for accept, want := range map[string]int{"text/html,application/xhtml+xml,*/*;q=0.8": 303, "*/*": 404,
		"application/json": 404, "text/html;q=0": 404, "text/html; q=0.0, */*": 404} {
		got := resttest.Send(t, web, "GET", "/", "", "Accept", accept)
		if got.Status != want || got.Header.Get("Vary") == "" || want == 303 && got.Header.Get("Location") != "/docs" {
			t.Errorf("%s: %d %v", accept, got.Status, got.Header)
		}
	}
	if got := resttest.Send(t, web, "POST", "/", "{}", "Accept", "text/html"); got.Status != 404 {
		t.Errorf("POST: %d", got.Status)
	}
}
