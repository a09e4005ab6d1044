package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestLegacyBackendsByEveryDoor: every way to call a tool over HTTP reaches a legacy backend: a stream has one chunk,
// and what the dialect lacks is rejected with a reason.
func TestLegacyBackendsByHTTP(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{
		{Capability: "caps", Backends: []string{c.Serve(t, call.Legacy).Addr}, Sources: []string{gatewaytest.Echo}}}})
	const whole = `{"event":"chunk","id":"1","data":{"a":"ü"}}` + "\n" + `{"event":"done","id":"2"}` + "\n"
	const failed = `{"event":"done","id":"1","error":"the tool failed for {}"}` + "\n"
	calls := 0
	for _, protocol := range protocols {
		client := protocol.client(g, t)
		for _, test := range []struct {
			method, path, body, accept string
			status                     int
			want                       string // the body, or a part of a problem
		}{
			{"POST", "caps/stream", `{"tool_name":"echo","args":{"a":"ü"}}`, asEvents, 200,
				"id: 1\nevent: chunk\ndata: {\"data\":{\"a\":\"ü\"}}\n\nid: 2\nevent: done\ndata: {}\n\n"},
			{"POST", "caps/stream", `{"tool_name":"echo","args":{"a":"ü"}}`, asLines, 200, whole},
			{"POST", "caps/tools/echo/stream", `{"a":"ü"}`, asLines, 200, whole},
			{"GET", "caps/tools/echo/stream?args=%7B%22a%22%3A%22%C3%BC%22%7D", "", asLines, 200, whole},
			{"POST", "caps/invoke", `{"tool_name":"fail"}`, asLines, 200, failed},
			{"POST", "caps/tools/mute/stream", `{}`, asLines, 200,
				`{"event":"done","id":"1","error":"the tool failed without an error message"}` + "\n"},
			{"POST", "caps/stream", `{"tool_name":"break"}`, asLines, 500, `"code":"DATA_LOSS","reason":"BROKE"`},
			{"POST", "caps/stream", `{"tool_name":"echo","args_json":"/w=="}`, asLines, 400,
				`"reason":"DIALECT_TEXT_ONLY"`},
			{"POST", "caps/tools/echo", `{"a":"ü"}`, "", 200, `{"a":"ü"}`},
			{"POST", "caps/tools/fail", `{}`, "", 200, `{"error":"the tool failed for {}"}` + "\n"},
			{"GET", "caps/health", "", "", 200, `{"ready":true,"message":"1 of 1 backends ready"}` + "\n"},
			{"POST", "caps/artifacts?filename=a.txt", "text", "", 501, `"reason":"DIALECT_UNSUPPORTED"`},
			{"GET", "caps/artifacts/b1-1", "", "", 501, `"reason":"DIALECT_UNSUPPORTED"`},
		} {
			header := []string{"Accept", test.accept}
			if test.accept == "" {
				header = nil
			}
			resp := ask(t.Context(), t, client, g, test.method, test.path, test.body, header...)
			body := bodyOf(t, resp)
			problem := resp.Header.Get("Content-Type") == "application/problem+json"
			if resp.StatusCode != test.status || problem != (test.status >= 400) || !problem && body != test.want ||
				!strings.Contains(body, test.want) {
				t.Errorf("%s, %s %s: %s %q", protocol.name, test.method, test.path, resp.Status, body)
			}
			calls++
		}
		resp := ask(t.Context(), t, client, g, http.MethodPost, "caps/tools/fail", `{}`, "Prefer", "errors=http")
		if body := bodyOf(t, resp); resp.StatusCode != http.StatusUnprocessableEntity ||
			!strings.Contains(body, "the tool failed for {}") {
			t.Errorf("%s: %s %s", protocol.name, resp.Status, body)
		}
		calls++
	}
	if n := len(g.Log.Calls(t, calls)); n != calls {
		t.Errorf("%d calls are logged, of %d", n, calls)
	}
}
