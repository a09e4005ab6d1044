package rest_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/resttest"
)

// TestOneReading: arguments and configurations that JSON parsers read differently are rejected in every form of a call,
// with the same text and the reason that they have in a call of gRPC. No name is quoted: it may be a secret.
func TestOneReading(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{EventSource: func(string, string) bool { return true }})
	for args, detail := range map[string]string{
		`{"hunter2":1,"hunter2":2}`:               "has a name twice in one object, at byte ",
		`{"x":[{"a":1,"b":2,"\u0061":3}]}`:        "has a name twice in one object, at byte ",
		`{"a":"\ud800"}`:                          "has a lone surrogate at byte ",
		`{"a\u0000":1}`:                           "has a NUL in a name, at byte ",
		`{"a":1e999}`:                             "that is out of the range of a double",
		`{"a":1` + strings.Repeat("0", 600) + `}`: "has a number of more than 512 digits at byte ",
		`{"a":-Infinity}`:                         "has NaN or Infinity at byte ",
	} {
		for _, form := range []struct{ method, path, body, subject string }{
			{"POST", invokePath, `{"tool_name":"t","args":` + args + `}`, "the body "},
			{"POST", invokePath, `{"tool_name":"t","config":` + args + `}`, "the body "},
			{"POST", invokePath + "?x=1", `{"tool_name":"t","args":` + args + `}`, "the body "},
			{"POST", streamPath, `{"tool_name":"t","args":` + args + `}`, "the body "},
			{"POST", toolPath, args, "the body "},
			{"POST", toolPath + "?x=1", args, "the body "},
			{"POST", toolPath + "/stream", args, "the body "},
			{"GET", toolPath + "/stream?args=" + url.QueryEscape(args), "", "args "},
		} {
			got := resttest.Send(t, web, form.method, form.path, form.body)
			p := resttest.ProblemOf(t, got)
			if got.Status != 400 || p.Code != "INVALID_ARGUMENT" || p.Reason != "AMBIGUOUS_ARGUMENTS" ||
				!strings.HasPrefix(p.Detail, form.subject) || !strings.Contains(p.Detail, detail) ||
				strings.Contains(got.Body, "hunter2") {
				t.Errorf("%s %s %s: %d %s; want %s…%s", form.method, form.path, form.body, got.Status, got.Body,
					form.subject, detail)
			}
		}
	}
	for path, body := range map[string]string{
		invokePath: `{"tool_name":"t","args":{"a":1},"args":{"a":2}}`,
		streamPath: "{\"tool_name\":\"t\",\n\"args\":{},\"args\":{}}",
	} {
		got := resttest.Send(t, web, "POST", path, body)
		if p := resttest.ProblemOf(t, got); got.Status != 400 || p.Reason != "INVALID_BODY" ||
			!strings.Contains(p.Detail, "has a name twice in one object, at byte ") {
			t.Errorf("%s %s: %d %s", path, body, got.Status, got.Body)
		}
	}
	if req, _, _ := b.last(); req != nil {
		t.Errorf("a call went through: %v", req)
	}
}

// TestQueryOfATool: the session and the thread of a call may be in the query, each once.
func TestQueryOfATool(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{EventSource: func(string, string) bool { return true }})
	for _, tt := range []struct {
		method, path string
		status       int
		session      string
	}{
		{"POST", toolPath + "?session_id=q&x=1&x=2", 200, "q"},
		{"POST", toolPath + "?sessionId=q", 200, "q"},
		{"POST", toolPath + "?session_id=", 200, "h"},
		{"POST", toolPath + "/stream?session_id=q", 200, "q"},
		{"GET", toolPath + "/stream?session_id=q", 200, "q"},
		{"POST", toolPath + "?session_id=q&session_id=r", 400, ""},
		{"POST", toolPath + "/stream?session_id=q&session_id=r", 400, ""},
		{"POST", toolPath + "?session_id=q&sessionId=r", 400, ""},
		{"POST", toolPath + "?session_id=&sessionId=r", 400, ""},
		{"POST", toolPath + "/stream?session_id=q&sessionId=", 400, ""},
		{"GET", toolPath + "/stream?session_id=&sessionId=r", 400, ""},
		{"POST", toolPath + "?session_id=%zz", 400, ""},
		{"GET", toolPath + "/stream?session_id=q&session_id=q", 400, ""},
		{"GET", toolPath + "/stream?x=1", 400, ""},
	} {
		body := ""
		if tt.method == "POST" {
			body = "{}"
		}
		var header []string
		if tt.session == "h" {
			header = []string{"X-Session-Id", "h"}
		}
		got := resttest.Send(t, web, tt.method, tt.path, body, header...)
		if got.Status != tt.status || got.Status == 400 && resttest.ProblemOf(t, got).Reason != "INVALID_QUERY" {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, got.Status, got.Body)
		}
		if req, _, _ := b.last(); got.Status == 200 && req.GetSessionId() != tt.session {
			t.Errorf("%s %s: session %q", tt.method, tt.path, req.GetSessionId())
		}
	}
}
