package rest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/resttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

func TestBadBodies(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{})
	for _, tt := range []struct{ name, body, detail string }{
		{"empty", "", "body is empty"},
		{"blank", " \n", "body is empty"},
		{"null", "null", "must be a JSON object"},
		{"array", "[]", "must be a JSON object"},
		{"string", `"tool_name"`, "must be a JSON object"},
		{"form", "tool_name=t&args=%7B%7D", "not JSON from byte 0 on"},
		{"cut off", `{"tool_name":"t"`, "not JSON from byte 16 on"},
		{"syntax", "{\"tool_name\":\"t\",\n \"args\": {x}}", "not JSON from byte 28 on (line 2, column 11)"},
		{"trailing garbage", `{"tool_name":"t"} {}`, "more than one JSON value: the second begins at byte 18"},
		{"trailing comma", `{"tool_name":"t",}`, "not JSON from byte 17 on"},
		{"comment", `{"tool_name":"t"/**/}`, "not JSON from byte 16 on"},
		{"byte order mark", "\ufeff" + `{"tool_name":"t"}`, "byte order mark"},
		{"open string", `{"tool_name":"t`, "not JSON from byte 15 on"},
		{"only closing", `}]`, "not JSON from byte 0 on"},
		{"NaN", `{"tool_name":NaN}`, "NaN or Infinity at byte 13"},
		{"a lone surrogate", `{"tool_name":"\ud800"}`, "lone surrogate at byte 14"},
		{"a number too large", `{"tool_name":1e999}`, "number at byte 13 that is out of the range of a double"},
		{"UTF-8", "{\"tool_name\":\"\xff\"}", "UTF-8"},
		{"UTF-8 in args", "{\"tool_name\":\"t\",\"args\":{\"a\":\"\xc3\"}}", "UTF-8"},
		{"too deep", `{"tool_name":"t","args":{"a":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}}`,
			"more than 100 levels deep"},
		{"far too deep", strings.Repeat(`{"a":`, 1<<20), "more than 100 levels deep"},
		{"duplicate", `{"tool_name":"t","tool_name":"t"}`, "a name twice in one object, at byte 17"},
		{"duplicate in disguise", `{"tool_name":"t","tool\u005fname":"t"}`, "a name twice in one object, at byte 17"},
		{"two spellings", `{"tool_name":"t","toolName":"t"}`, "same field"},
		{"unknown", `{"tool_name":"t","location":"Berlin"}`, `unknown field "location"`},
		{"wrong case", `{"Tool_Name":"t"}`, `unknown field "Tool_Name"`},
		{"no tool", `{"args":{}}`, "tool_name is required"},
		{"empty tool", `{"tool_name":""}`, "tool_name is required"},
		{"tool of another type", `{"tool_name":7}`, "tool_name must be a string"},
		{"args of another type", `{"tool_name":"t","args":"{}"}`, "args must be a JSON object"},
		{"config of another type", `{"tool_name":"t","config":["hunter2"]}`, "config must be a JSON object"},
		{"args twice", `{"tool_name":"t","args":{},"args_json":"e30="}`, "mutually exclusive"},
		{"config twice", `{"tool_name":"t","config":{"k":"hunter2"},"configJson":"e30="}`, "mutually exclusive"},
		{"not base64", `{"tool_name":"t","config_json":"hunter2!"}`, "config_json must be base64"},
		{"base64 of another type", `{"tool_name":"t","args_json":{}}`, "args_json must be a string"},
		{"another capability", `{"tool_name":"t","capability_id":"news"}`, "not the capability in the path"},
		{"a secret in a broken body", `{"tool_name":"t","config":{"password":"hunter2"}`, "not JSON from byte 48 on"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := resttest.Send(t, web, "POST", invokePath, tt.body)
			p := resttest.ProblemOf(t, got)
			if got.Status != 400 || p.Code != "INVALID_ARGUMENT" || p.Reason != "INVALID_BODY" ||
				!strings.Contains(p.Detail, tt.detail) {
				t.Errorf("%d %+v; want %q", got.Status, p, tt.detail)
			}
			if strings.Contains(got.Body, "hunter2") {
				t.Errorf("the secret is in %s", got.Body)
			}
		})
	}
	if req, _, _ := b.last(); req != nil {
		t.Errorf("a call went through: %v", req)
	}
}

func TestRouting(t *testing.T) {
	t.Parallel()
	web := door(t, new(backend), rest.Config{})
	const good = `{"tool_name":"t"}`
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
		reason       string
	}{
		{"POST", "/", 404, "", "NO_SUCH_PATH"},
		{"POST", "/v1/capabilities/weather", 405, "GET, HEAD, OPTIONS", "METHOD_NOT_ALLOWED"},
		{"POST", "/v1/capabilities/weather/invoke/", 404, "", "NO_SUCH_PATH"},
		{"POST", "/v1/capabilities//invoke", 404, "", "NO_SUCH_PATH"},
		{"POST", "/v1/capabilities/a%2Fb/invoke", 404, "", "NO_SUCH_PATH"},
		{"POST", "/v1/capabilities/%ff/invoke", 404, "", "NO_SUCH_PATH"},
		{"POST", "/v1/capabilities/weather/invoke:verb", 404, "", "NO_SUCH_PATH"},
		{"GET", "/nothing", 404, "", "NO_SUCH_PATH"},
		{"HEAD", "/nothing", 404, "", ""},
		{"OPTIONS", "/nothing", 404, "", "NO_SUCH_PATH"},
		{"GET", invokePath, 405, "POST, OPTIONS", "METHOD_NOT_ALLOWED"},
		{"PUT", invokePath, 405, "POST, OPTIONS", "METHOD_NOT_ALLOWED"},
		{"BREW", invokePath, 405, "POST, OPTIONS", "METHOD_NOT_ALLOWED"},
		{"HEAD", invokePath, 405, "POST, OPTIONS", ""},
		{"OPTIONS", invokePath, 204, "POST, OPTIONS", ""},
		{"POST", "/v1/capabilities/w%C3%A4%25/invoke?x=1", 200, "", ""},
	} {
		got := resttest.Send(t, web, tt.method, tt.path, good)
		if got.Status != tt.status || got.Header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q; %s", tt.method, tt.path, got.Status, got.Header.Get("Allow"), got.Body)
		}
		if tt.reason != "" && resttest.ProblemOf(t, got).Reason != tt.reason {
			t.Errorf("%s %s: %s", tt.method, tt.path, got.Body)
		}
	}
	if got := resttest.Send(t, web, "POST", invokePath, good, "X-HTTP-Method-Override", "GET"); got.Status != 200 {
		t.Errorf("a header changes the method: %d %s", got.Status, got.Body)
	}
}

func TestPathNamesTheCapability(t *testing.T) {
	t.Parallel()
	b := new(backend)
	resttest.Send(t, door(t, b, rest.Config{}), "POST", "/v1/capabilities/w%C3%A4%2520/invoke", `{"tool_name":"t"}`)
	if req, _, _ := b.last(); req.GetCapabilityId() != "wä%20" {
		t.Errorf("got %q", req.GetCapabilityId())
	}
}

func TestBadHeaders(t *testing.T) {
	t.Parallel()
	web := door(t, new(backend), rest.Config{})
	for _, name := range []string{"Authorization", "X-Request-Id"} {
		got := resttest.Send(t, web, "POST", invokePath, `{"tool_name":"t"}`, name, "hünter2")
		if p := resttest.ProblemOf(t, got); got.Status != 400 || p.Reason != "INVALID_HEADER" ||
			strings.Contains(got.Body, "nter2") {
			t.Errorf("%s: %s; p %+v", name, got.Body, p)
		}
	}
	if got := resttest.Send(t, web, "POST", invokePath, `{"tool_name":"t"}`, "X-Name", "ü"); got.Status != 200 {
		t.Errorf("a header that stays here: %d", got.Status)
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	var next error
	b := &backend{invoke: func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		return nil, next
	}}
	web := door(t, b, rest.Config{})
	for c := codes.Canceled; c <= codes.Unauthenticated+1; c++ {
		next = status.Error(c, "because ü")
		got := resttest.Send(t, web, "POST", invokePath, `{"tool_name":"t"}`)
		p := resttest.ProblemOf(t, got)
		if got.Status != runtime.HTTPStatusFromCode(c) || p.Detail != "because ü" {
			t.Errorf("%v: %d %+v", c, got.Status, p)
		}
		if (got.Header.Get("WWW-Authenticate") != "") != (got.Status == 401) {
			t.Errorf("%v: WWW-Authenticate %q", c, got.Header.Get("WWW-Authenticate"))
		}
	}
	st, err := status.New(codes.Unavailable, "no backend").WithDetails(
		&errdetails.ErrorInfo{Reason: "NO_BACKEND", Domain: "capgate.dev",
			Metadata: map[string]string{"capability": "weather"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)})
	check.Must(t, err)
	next = st.Err()
	got := resttest.Send(t, web, "POST", invokePath, `{"tool_name":"t"}`)
	p := resttest.ProblemOf(t, got)
	if got.Status != 503 || p.Code != "UNAVAILABLE" || p.Title != "Service Unavailable" || p.Reason != "NO_BACKEND" ||
		p.Metadata["capability"] != "weather" || p.RetryAfter != 1.5 || got.Header.Get("Retry-After") != "2" {
		t.Errorf("%v %+v", got.Header, p)
	}
}

// TestLimitsSayWhenTheyEnd: the rejection of a limit has its headers, and the time after which a retry may succeed.
func TestLimitsSayWhenTheyEnd(t *testing.T) {
	t.Parallel()
	st, err := status.New(codes.ResourceExhausted, "too many calls").WithDetails(
		&errdetails.ErrorInfo{Reason: "RATE_LIMITED", Domain: "capgate.dev",
			Metadata: map[string]string{"limit": "calls_per_second", "max": "7"}},
		&errdetails.QuotaFailure{}, &errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)})
	check.Must(t, err)
	b := &backend{invoke: func(context.Context, *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
		return nil, st.Err()
	}}
	got := resttest.Send(t, door(t, b, rest.Config{}), "POST", invokePath, `{"tool_name":"t"}`)
	for name, want := range map[string]string{"RateLimit-Limit": "7", "RateLimit-Remaining": "0",
		"RateLimit-Reset": "2", "RateLimit-Policy": `"calls_per_second";q=7;w=1`,
		"RateLimit": `"calls_per_second";r=0;t=2`, "Retry-After": "2"} {
		if is := got.Header.Get(name); is != want {
			t.Errorf("%s: %s, want %s", name, is, want)
		}
	}
}

// FuzzBody: whatever the body, the answer is 200 with the arguments as they were, or 400
// with a problem.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"tool_name":"t","args":{"a":[1,{"b":null}]},"config_json":"e30="}`))
	f.Add([]byte(`{"tool_name":"t","args":{"\u0061":1,"a":2}}`))
	f.Add([]byte("{\"\\"))
	f.Add([]byte("]},\"\x00"))
	b := new(backend)
	web := door(f, b, rest.Config{})
	f.Fuzz(func(t *testing.T, body []byte) {
		got := resttest.Send(t, web, "POST", invokePath, string(body))
		switch got.Status {
		case 400:
			resttest.ProblemOf(t, got)
		case 200:
			var in struct {
				Args json.RawMessage `json:"args"`
			}
			if err := json.Unmarshal(body, &in); err != nil {
				t.Fatalf("accepted what is not JSON: %v", err)
			}
			if req, _, _ := b.last(); in.Args != nil && string(in.Args) != "null" &&
				string(in.Args) != string(req.GetArgsJson()) {
				t.Fatalf("%s became %s", in.Args, req.GetArgsJson())
			}
		default:
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	})
}
