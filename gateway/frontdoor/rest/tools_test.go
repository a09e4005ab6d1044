package rest_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestToolAnswersPlainly: with nothing but its result, byte for byte.
func TestToolAnswersPlainly(t *testing.T) {
	t.Parallel()
	const asJSON, asText, asBytes = "application/json", "text/plain; charset=utf-8", "application/octet-stream"
	for _, tt := range []struct {
		name, result, fault string
		status              int
		typ, body, outcome  string
	}{
		{"JSON", " [1.0, 1e400, \"<ü>\"]\n", "", 200, asJSON, " [1.0, 1e400, \"<ü>\"]\n", "success"},
		{"null", "null", "", 200, asJSON, "null", "success"},
		{"text", "wärm {", "", 200, asText, "wärm {", "success"},
		{"bytes", "\x00\x01", "", 200, asBytes, "\x00\x01", "success"},
		{"no UTF-8", "\xff", "", 200, asBytes, "\xff", "success"},
		{"nothing", "", "", 204, "", "", "success"},
		{"a result that looks like an error", `{"error":"e"}`, "", 200, asJSON, `{"error":"e"}`, "success"},
		{"tool error", "", "e <1>", 200, asJSON, `{"error":"e <1>"}` + "\n", "tool_error"},
		{"tool error with a result", "[1]", "e", 200, asJSON, `{"result":[1],"error":"e"}` + "\n", "tool_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &backend{invoke: func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
				return &docpb.InvokeResponse{ResultJson: []byte(tt.result), Error: tt.fault}, nil
			}}
			got := resttest.Send(t, door(t, b, rest.Config{}), "POST", toolPath, `{}`)
			if got.Status != tt.status || got.Body != tt.body || got.Header.Get("Content-Type") != tt.typ ||
				got.Header.Get("X-Capgate-Outcome") != tt.outcome {
				t.Errorf("%d %v %q", got.Status, got.Header, got.Body)
			}
		})
	}
}

func TestToolIsCalled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, body string
		header           []string
		args             string
		session, thread  string
	}{
		{"untouched", toolPath, " {\"n\": 1.10,\"z\":1E+300 }\n", nil, `{"n": 1.10,"z":1E+300 }`, "", ""},
		{"without a body", toolPath, "", nil, `{}`, "", ""},
		{"in headers", toolPath, "{}", []string{"X-Session-Id", "s", "X-Thread-Id", "th"}, `{}`, "s", "th"},
		{"in the query", toolPath + "?session_id=s&thread_id=th", "{}", nil, `{}`, "s", "th"},
		{"arguments with names of ours", toolPath, `{"session_id":"x","tool_name":"y"}`, nil,
			`{"session_id":"x","tool_name":"y"}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := new(backend)
			web := door(t, b, rest.Config{})
			for _, accept := range []string{"application/json", resttest.EventStream} {
				got := resttest.Send(t, web, "POST", tt.path, tt.body, append(tt.header, "Accept", accept)...)
				req, md, _ := b.last()
				if got.Status != 200 || req.GetCapabilityId() != "weather" || req.GetToolName() != "t" ||
					string(req.GetArgsJson()) != tt.args ||
					string(req.GetConfigJson()) != "{}" || req.GetSessionId() != tt.session ||
					req.GetThreadId() != tt.thread || len(md.Get("x-thread-id")) > 0 {
					t.Errorf("%d %s; %v, %v", got.Status, got.Body, req, md)
				}
			}
		})
	}
	b := new(backend)
	resttest.Send(t, door(t, b, rest.Config{}), "POST", "/v1/capabilities/weather/tools/a%20b:c", `{}`)
	if req, _, _ := b.last(); req.GetToolName() != "a b:c" {
		t.Errorf("called %q", req.GetToolName())
	}
}

func TestToolErrors(t *testing.T) {
	t.Parallel()
	b := &backend{invoke: func(_ context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		return &docpb.InvokeResponse{ResultJson: []byte(`[1]`), Error: "no such city"}, nil
	}}
	for _, tt := range []struct {
		config  rest.ToolErrors
		prefer  string
		status  int
		applied string
	}{
		{rest.ResultErrors, "", 200, ""},
		{rest.ResultErrors, "errors=http", 422, "errors=http"},
		{rest.ResultErrors, `respond-async, Errors="HTTP" ; x=1`, 422, "errors=http"},
		{rest.ResultErrors, "errors=loud", 200, ""},
		{rest.ResultErrors, "wait=3, errors=http", 422, "wait=3, errors=http"},
		{rest.HTTPErrors, "", 422, ""},
		{rest.HTTPErrors, "errors=result", 200, "errors=result"},
	} {
		web := door(t, b, rest.Config{ToolErrors: tt.config})
		for path, body := range map[string]string{toolPath: `{}`, invokePath: `{"tool_name":"t"}`} {
			got := resttest.Send(t, web, "POST", path, body, "Prefer", tt.prefer)
			if applied := strings.Join(got.Header.Values("Preference-Applied"), ", "); got.Status != tt.status ||
				applied != tt.applied {
				t.Errorf("%+v, %s: %d, applied %q, %s", tt, path, got.Status, applied, got.Body)
			}
			if tt.status == 422 && !strings.Contains(got.Body,
				`"title":"Unprocessable Entity","status":422,"detail":"no such city","code":"UNKNOWN","reason":"TOOL_ERROR","request_id":"`+got.Header.Get("X-Request-Id")+`","result":[1]}`) {
				t.Errorf("%s", got.Body)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	b := &backend{health: func(context.Context) (*docpb.HealthResponse, error) {
		return &docpb.HealthResponse{Message: "0 of 2 backends ready"}, nil
	}}
	if got := resttest.Send(t, door(t, b, rest.Config{}), "GET", "/v1/capabilities/weather/health",
		""); got.Status != 200 || got.Body != `{"ready":false,"message":"0 of 2 backends ready"}`+"\n" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	b = &backend{health: func(context.Context) (*docpb.HealthResponse, error) {
		return nil, status.Error(codes.NotFound, "what?")
	}}
	for _, name := range []string{"weather", "w%C3%A4"} {
		if got := resttest.Send(t, door(t, b, rest.Config{}), "GET", "/v1/capabilities/"+name+"/health",
			""); resttest.ProblemOf(t, got).Status != 404 {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
}

func TestWhatIsAccepted(t *testing.T) {
	t.Parallel()
	web := door(t, new(backend), rest.Config{})
	const asJSON = "application/json"
	for accept, want := range map[string][2]string{ // of invoke, and of stream
		"":                                    {asJSON, resttest.EventStream},
		"*/*":                                 {asJSON, resttest.EventStream},
		resttest.EventStream:                  {resttest.EventStream, resttest.EventStream},
		"TEXT/event-stream; a=b":              {resttest.EventStream, resttest.EventStream},
		resttest.JSONLines:                    {resttest.JSONLines, resttest.JSONLines},
		"text/event-stream, */*":              {resttest.EventStream, resttest.EventStream},
		"*/*, text/event-stream":              {resttest.EventStream, resttest.EventStream},
		"*/*, application/x-ndjson;q=0.9":     {asJSON, resttest.EventStream},
		"application/json, text/event-stream": {asJSON, resttest.EventStream},
		"application/json;q=0.5, text/event-stream":           {resttest.EventStream, resttest.EventStream},
		"application/x-ndjson;q=0.8, text/event-stream;q=0.9": {resttest.EventStream, resttest.EventStream},
		"text/html, image/png":                                {asJSON, ""},
		"text/event-stream;q=nonsense":                        {asJSON, ""},
	} {
		for i, path := range []string{invokePath, streamPath} {
			got := resttest.Send(t, web, "POST", path, `{"tool_name":"t"}`, "Accept", accept)
			if typ := got.Header.Get("Content-Type"); got.Status == 200 && typ != want[i] || got.Status != 200 &&
				(got.Status != 406 || want[i] != "") {
				t.Errorf("%q: %s answers with %d %s; want %s", accept, path, got.Status, typ, want[i])
			}
		}
	}
}
