package problem_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/docs"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/testkit/check"
)

// ask sends one request; header holds names and values in turn.
func ask(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func read(t *testing.T, w *httptest.ResponseRecorder) problem.Problem {
	t.Helper()
	var p problem.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil ||
		w.Header().Get("Content-Type") != "application/problem+json" || p.Status != w.Code {
		t.Fatalf("%d %v %s: %v", w.Code, w.Header(), w.Body, err)
	}
	return p
}

var gone = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	problem.Write(w, r, problem.Own(410, codes.NotFound, "GONE", "it was here"))
})

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	h := problem.WithRequestID(problem.Check(gone))
	for _, id := range []string{"a", strings.Repeat("x", 128), `~ !"#`} {
		w := ask(t, h, "GET", "/", "X-Request-Id", id)
		if p := read(t, w); p.RequestID != id || w.Header().Get("X-Request-Id") != id || p.Reason != "GONE" {
			t.Errorf("%q became %+v", id, p)
		}
	}
	seen := map[string]bool{}
	for _, none := range [][]string{nil, nil, {"X-Request-Id", ""}} {
		w := ask(t, h, "GET", "/", none...)
		id := w.Header().Get("X-Request-Id")
		if p := read(t, w); id == "" || p.RequestID != id || seen[id] || p.Reason != "GONE" {
			t.Errorf("%q %+v", id, p)
		}
		seen[id] = true
	}
	for _, bad := range [][]string{{strings.Repeat("x", 129)}, {"a\x00b"}, {"ü"}, {"a\nb"}, {"a", "b"}, {"", "b"}} {
		var header []string
		for _, v := range bad {
			header = append(header, "X-Request-Id", v)
		}
		w := ask(t, h, "GET", "/", header...)
		id := w.Header().Get("X-Request-Id")
		if p := read(t, w); p.Status != 400 || p.Reason != "INVALID_HEADER" || id == "" || p.RequestID != id ||
			strings.Contains(w.Body.String(), bad[0]) && bad[0] != "a" && bad[0] != "" {
			t.Errorf("%q: %s; p %+v; id %+v", bad, w.Body, p, id)
		}
	}
	next := problem.WithRequestID(problem.Check(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
	})))
	grpc := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ProtoMajor = 2 // it is refused over HTTP/1.1
		next.ServeHTTP(w, r)
	})
	for typ, untouched := range map[string]bool{"application/grpc": true, "Application/gRPC+proto": true,
		"application/grpc;x": true, "application/grpc-web": false, "application/grpc-web-text": false} {
		if w := ask(t, grpc, "POST", "/", "Content-Type", typ); (w.Header().Get("X-Request-Id") == "") != untouched {
			t.Errorf("%s: %v", typ, w.Header())
		}
	}
}

func TestWhatAProblemSays(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	w := ask(t, gone, "GET", "/", "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	want := problem.Problem{Type: "/docs/errors#GONE", Title: "Gone", Status: 410, Detail: "it was here",
		Code: "NOT_FOUND", Reason: "GONE", TraceID: trace}
	if p := read(t, w); p.Type != want.Type || p.Title != want.Title || p.Detail != want.Detail ||
		p.Code != want.Code || p.TraceID != trace {
		t.Errorf("%s; p %+v", w.Body, p)
	}
	for _, bad := range []string{"", "00-" + trace, "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01"} {
		if p := read(t, ask(t, gone, "GET", "/", "Traceparent", bad)); p.TraceID != "" {
			t.Errorf("%q is the trace %s", bad, p.TraceID)
		}
	}
	if w := ask(t, gone, "HEAD", "/"); w.Body.Len() > 0 || w.Code != 410 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d %v %q", w.Code, w.Header(), w.Body)
	}
}

// TestWhoseReason: only the gateway's reasons have an explanation here, and a status of their own.
func TestWhoseReason(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]problem.Problem{
		status.Domain:     {Status: 421, Type: "/docs/errors#HOST_UNKNOWN"},
		"weather.example": {Status: 404},
		"":                {Status: 404},
	} {
		st, err := grpcstatus.New(codes.NotFound, "").WithDetails(&errdetails.ErrorInfo{Reason: "HOST_UNKNOWN",
			Domain: domain})
		check.Must(t, err)
		p := problem.Of(st.Err())
		if p.Status != want.Status || p.Type != want.Type || p.Reason != "HOST_UNKNOWN" {
			t.Errorf("%q: %+v", domain, p)
		}
	}
}

// TestErrorsOfAMuxAreProblems: what a mux answers itself is a problem, as a handler's own errors are.
func TestErrorsOfAMuxAreProblems(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/things/{id}",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a thing")) })
	mux.HandleFunc("POST /v1/things/", func(w http.ResponseWriter, r *http.Request) { problem.CrossSite(w, r) })
	h := problem.Mux(mux, nil)
	for _, tt := range []struct {
		method, path   string
		status         int
		reason, header string
	}{
		{"GET", "/v1/nothing", 404, "NO_SUCH_PATH", ""},
		{"PUT", "/v1/things/a", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		{"POST", "/v1/things/", 403, "CROSS_SITE", ""},
	} {
		w := ask(t, h, tt.method, tt.path)
		if p := read(t, w); w.Code != tt.status || p.Reason != tt.reason || w.Header().Get("Allow") != tt.header ||
			p.Type != "/docs/errors#"+tt.reason {
			t.Errorf("%s %s: %d %v %s", tt.method, tt.path, w.Code, w.Header(), w.Body)
		}
	}
	if w := ask(t, h, "GET", "/v1/things/a"); w.Code != 200 || w.Body.String() != "a thing" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/v1//things/a"); w.Code/100 != 3 || w.Header().Get("Location") != "/v1/things/a" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestPage: the page links to every reason of docs/errors.md once, and makes no requests to other hosts.
func TestPage(t *testing.T) {
	t.Parallel()
	w := ask(t, problem.Page(), "GET", problem.Path)
	page := w.Body.String()
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
		w.Header().Get("ETag") == "" || !strings.Contains(w.Header().Get("Content-Security-Policy"),
		"default-src 'none'") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	reasons := 0
	for _, table := range strings.Split(docs.Errors, "| reason |")[1:] {
		table, _, _ = strings.Cut(table, "\n\n")
		for _, row := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
			for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
				if reasons++; strings.Count(page, ` id="`+m[1]+`"`) != 1 {
					t.Errorf("%s is there %d times", m[1], strings.Count(page, ` id="`+m[1]+`"`))
				}
			}
		}
	}
	if reasons < 100 || strings.Count(page, " id=") != reasons {
		t.Errorf("%d reasons, %d places to go to", reasons, strings.Count(page, " id="))
	}
	for _, not := range []string{"src=", "<script", "<link", "url(", "README.md", "](", "`"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %s", not)
		}
	}
	for _, want := range []string{"<h1>Errors</h1>", "<code>application/problem+json</code>",
		`<a rel="noopener noreferrer" href="https://www.rfc-editor.org/rfc/rfc9457">RFC 9457</a>`, "<em>reason</em>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %s", want)
		}
	}
}

// TestWithoutValue: errors have the position in a body, but not the value.
func TestWithoutValue(t *testing.T) {
	t.Parallel()
	for body, where := range map[string]string{
		`"secret"`: "line 1:1", `{"name": {"a": "secret"}}`: "line 1:10", `{"name": ["secret"]}`: "line 1:10",
		`{"options": "secret"}`: "line 1:13", `{"number": "secret"}`: "number",
		`{"number": secret}`: "line 1:12", `{"label": "secret"}`: "label", `{"options": secret`: "line 1:13",
	} {
		err := protojson.Unmarshal([]byte(body), new(descriptorpb.FieldDescriptorProto))
		if err == nil {
			t.Errorf("%s is taken", body)
			continue
		}
		if got := problem.WithoutValue(err.Error()); strings.Contains(got, "secret") || !strings.Contains(got, where) {
			t.Errorf("%s: %q", body, got)
		}
	}
}
