package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/app"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/openapi"
)

// routesOf returns the JSON routes of a row of the guard, which is a pattern or the path of a method.
func routesOf(t *testing.T, row string) []string {
	t.Helper()
	if method, path, ok := strings.Cut(row, " "); ok {
		for _, page := range []string{"/docs/", "/signin", "/signout", "/cli", "/inbox", "/console/"} {
			if strings.HasPrefix(path, page) {
				return nil
			}
		}
		return []string{method + " " + path}
	}
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(row, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil // reflection
	}
	rule, _ := proto.GetExtension(d.Options(), annotations.E_Http).(*annotations.HttpRule)
	var routes []string
	for _, r := range append(rule.GetAdditionalBindings(), rule) {
		for verb, path := range map[string]string{"GET": r.GetGet(), "PUT": r.GetPut(), "POST": r.GetPost(),
			"PATCH": r.GetPatch(), "DELETE": r.GetDelete()} {
			if path != "" {
				routes = append(routes, verb+" "+path)
			}
		}
	}
	return routes
}

// TestAdminDocument: the OpenAPI document of the admin API has exactly the routes that the port serves.
func TestAdminDocument(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	p, err := app.New(&settings.Settings{Config: cfg}, app.Options{Log: io.Discard})
	check.Must(t, err)
	t.Cleanup(p.Close)
	mount, err := p.AdminServices()
	check.Must(t, err)
	mux := guard.NewMux()
	mount(mux)
	unnamed := regexp.MustCompile(`\{[^}]*\}`)
	served := []string{"GET /livez", "GET /readyz", "GET /metrics"} // the routes of package gateway
	for _, row := range mux.Routes() {
		if _, ok := guard.AccessOf(row); !ok {
			t.Errorf("%s has no least role", row)
		}
		for _, route := range routesOf(t, row) {
			served = append(served, unnamed.ReplaceAllString(route, "{}"))
		}
	}
	var doc struct{ Paths map[string]map[string]any }
	check.Must(t, json.Unmarshal(openapi.Admin(), &doc))
	var documented []string
	for path, methods := range doc.Paths {
		for method := range methods {
			documented = append(documented, unnamed.ReplaceAllString(strings.ToUpper(method)+" "+path, "{}"))
		}
	}
	for _, route := range served {
		if !slices.Contains(documented, route) {
			t.Errorf("%s is not in openapi/admin.yaml", route)
		}
	}
	for _, route := range documented {
		if !slices.Contains(served, route) {
			t.Errorf("%s is in the document, and nothing serves it", route)
		}
	}
}

// postAs sends JSON to the admin API.
func postAs(t *testing.T, url, accept, body string) (status int, text string) {
	t.Helper()
	resp, got := clienttest.Send(t, clienttest.HTTP, http.MethodPost, url, body, "Accept", accept)
	return resp.StatusCode, got
}

// TestPlayground: an operator calls as a user, unary and streaming, and the calls appear among the recent
// calls, also live.
func TestPlayground(t *testing.T) {
	t.Parallel()
	_, greeting := startDemo(t)
	_, admin := addresses(greeting)
	events, err := clienttest.HTTP.Get("http://" + admin + "/v1/calls/events?user=ann") //nolint:noctx // closed below
	check.Must(t, err)
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	for lines.Scan() && lines.Text() != "" { // the prelude
	}
	const call = `{"user":"ann","capability":"weather","tool":"get_current_weather","arguments":{"location":"Rome"}}`
	url := "http://" + admin + "/v1/playground:invoke"
	if status, text := postAs(t, url, "*/*", call); status != 200 || !strings.Contains(text, `"location":"Rome"`) {
		t.Errorf("got %d %s", status, text)
	}
	if status, text := postAs(t, url, "text/event-stream", call); status != 200 ||
		!strings.Contains(text, "event: chunk\n") || !strings.Contains(text, "event: done\n") {
		t.Errorf("got %d %s", status, text)
	}
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if text := lines.Text(); !strings.Contains(text, `"user":"ann"`) || !strings.Contains(text, `"key":"operator `) {
		t.Errorf("the watch sent %s", text)
	}
	if status, text := page(t, "http://"+admin+"/v1/calls?user=nobody"); status != 200 ||
		!strings.Contains(text, `"calls":[]`) {
		t.Errorf("got %d %s", status, text)
	}
	for body, reason := range map[string]string{
		`{`:                    "INVALID_BODY",
		`{"capability":"x"}`:   "PLAYGROUND_INVALID",
		`{"tool":"a","b":"c"}`: "INVALID_BODY",
		`{"capability":"weather","tool":"x","tool":"get_current_weather"}`:       "INVALID_BODY",
		`{"capability":"weather","tool":"x","arguments":[]}`:                     "PLAYGROUND_INVALID",
		`{"capability":"weather","tool":"x","wait":-1}`:                          "PLAYGROUND_INVALID",
		`{"capability":"none","tool":"x"}`:                                       "CAPABILITY_UNKNOWN",
		`{"capability":"weather","tool":"x","approval_id":"\r\nx-user-id: bob"}`: "PLAYGROUND_INVALID",
	} {
		if status, text := postAs(t, url, "*/*", body); status < 400 || !strings.Contains(text, reason) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, text := page(t, "http://"+admin+"/v1/summary"); status != 200 ||
		!strings.Contains(text, `"attention":[`) {
		t.Errorf("got %d %s", status, text)
	}
}

// TestSummaryOfCallsAndFleets: the summary does not count a tool error as success, a fleet with a backend that
// is down needs attention, and the text names it.
func TestSummaryOfCallsAndFleets(t *testing.T) {
	t.Parallel()
	up := gatewaytest.NewCapability("up").Serve(t, call.Doc).Addr
	_, public, admin := serve(t, nil, "--config", writeConfig(t, configOf("", up, "127.0.0.1:1")))
	for _, tool := range []string{gatewaytest.Echo, gatewaytest.Fail} {
		invoked, _ := postAs(t, "http://"+public+"/v1/capabilities/caps/invoke", "*/*", `{"tool_name":"`+tool+`"}`)
		if invoked == 0 {
			t.Fatal(tool)
		}
	}
	check.Until(t, "the summary", func() (bool, string) {
		_, text := page(t, "http://"+admin+"/v1/summary")
		return strings.Contains(text, `"totals":{"calls":2,"tool_errors":1}`) &&
			strings.Contains(text, `"text":"caps: 1 of 2 backends up"`), text
	})
	for outcome, want := range map[string]int{"*": 1, "tool_error": 1, "success": 1, "incomplete": 0} {
		if _, text := page(t, "http://"+admin+"/v1/calls?outcome="+outcome); strings.Count(text,
			`"request_id"`) != want {
			t.Errorf("%s: %s", outcome, text)
		}
	}
}
