package rest_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/resttest"
)

// TestNameTwice: arguments and configurations with a name twice have the reason that they have in a call of gRPC. No
// name is quoted: it may be a secret.
func TestNameTwice(t *testing.T) {
	t.Parallel()
	b := new(backend)
	web := door(t, b, rest.Config{})
	for _, tt := range []struct{ path, body, reason, detail string }{
		{toolPath, `{"a":1,"a":2}`, "AMBIGUOUS_ARGUMENTS",
			`the JSON of the arguments has a name twice in one object, at byte 7`},
		{toolPath, `{"x":[{"a":1,"b":2,"\u0061":3}]}`, "AMBIGUOUS_ARGUMENTS", `the JSON of the arguments has a name twice`},
		{invokePath, `{"tool_name":"t","args":{"x":[{"a":1,"b":2,"a":3}]}}`, "AMBIGUOUS_ARGUMENTS",
			`the JSON of the arguments has a name twice`},
		{invokePath, `{"tool_name":"t","config":{"hunter2":1,"hunter2":2}}`, "AMBIGUOUS_ARGUMENTS", "same name twice"},
		{invokePath, `{"tool_name":"t","args":{"a":1},"args":{"a":2}}`, "INVALID_BODY", "same name twice"},
	} {
		got := resttest.Send(t, web, "POST", tt.path, tt.body)
		p := resttest.ProblemOf(t, got)
		if got.Status != 400 || p.Code != "INVALID_ARGUMENT" || p.Reason != tt.reason ||
			!strings.Contains(p.Detail, tt.detail) || strings.Contains(got.Body, "hunter2") {
			t.Errorf("%s %s: %d %s; want %s %s; p %+v", tt.path, tt.body, got.Status, got.Body, tt.reason, tt.detail,
				p)
		}
	}
	if req, _, _ := b.last(); req != nil {
		t.Errorf("a call went through: %v", req)
	}
}
