package resttest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/testkit/check"
)

// Content types of streams.
const (
	EventStream = "text/event-stream"
	JSONLines   = "application/x-ndjson"
)

// Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Send sends one request. header holds alternating names and values.
func Send(t testing.TB, web *httptest.Server, method, path, body string, header ...string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
	check.Must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := web.Client().Do(req)
	check.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return Answer{resp.StatusCode, resp.Header, string(got)}
}

// ProblemOf returns the problem in a response. The test fails if there is none.
func ProblemOf(t testing.TB, a Answer) problem.Problem {
	t.Helper()
	var p problem.Problem
	dec := json.NewDecoder(strings.NewReader(a.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil || a.Header.Get("Content-Type") != problem.ContentType {
		t.Fatalf("not a problem: %v, %v, %q", err, a.Header, a.Body)
	}
	if p.Status != a.Status || p.Type == "" || p.Title == "" || p.Code == "" || p.RequestID == "" ||
		p.RequestID != a.Header.Get(problem.RequestID) {
		t.Errorf("%d %+v", a.Status, p)
	}
	return p
}

// LastRecord returns the last line of a stream of lines.
func LastRecord(t testing.TB, body string) (event string, p problem.Problem) {
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
