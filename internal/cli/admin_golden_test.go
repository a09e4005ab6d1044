package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/app"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

var updateGolden = flag.Bool("update", false, "write testdata/admin.golden instead of comparing with it")

const goldenFile = "testdata/admin.golden"

// goldenRequest is a request whose response the golden file has.
type goldenRequest struct {
	route string // method, path and query; {name} stands for a saved value; gRPC and the path of a gRPC method
	as    string // name of a credential of goldenGateway; default admin; anonymous: none
	body  string
	form  bool     // the body is a form
	head  []string // names and values of headers
	save  []string // name and path in the JSON body, as in "key credential" or "apr approvals.0.id"
	until string   // the request is repeated until its response contains all of these, between " & ", and none after !
	// messages bounds the messages of a stream, and call is a tool that is called after the first of them.
	messages int
	call     string
	open     bool // the route needs no credential, so that rejections are not tested
}

// TestAdminResponses compares the responses of all routes of the admin API with the golden file: status, content type
// and JSON, number for number. Each route is also requested without a credential, without a role, and by a viewer of
// one tenant. A route without a request fails the test. -update writes the file.
func TestAdminResponses(t *testing.T) {
	t.Parallel()
	g := startGolden(t)
	covered := map[string]bool{}
	for i := range goldenRequests {
		q := &goldenRequests[i]
		verb, target, _ := strings.Cut(q.route, " ")
		path, _, _ := strings.Cut(g.fill(target), "?")
		route := g.routeOf(verb, path)
		if !covered[verb+path] && !q.open {
			g.refusals(t, q)
		}
		covered[route], covered[verb+path] = true, true
		g.record(t, q)
	}
	for _, route := range g.patterns {
		if !covered[route] {
			t.Errorf("no request of goldenRequests is for %s", route)
		}
	}
	if *updateGolden {
		check.Must(t, os.WriteFile(goldenFile, g.out.Bytes(), 0o600))
		return
	}
	want, err := os.ReadFile(goldenFile)
	check.Must(t, err)
	compareGolden(t, string(want), g.out.String())
}

// compareGolden reports the responses that differ.
func compareGolden(t *testing.T, want, got string) {
	t.Helper()
	const between = "\n=== "
	wants, gots := strings.Split(want, between), strings.Split(got, between)
	if len(wants) != len(gots) {
		t.Errorf("%d responses, and the file has %d", len(gots), len(wants))
	}
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			t.Errorf("got\n%s\nwant\n%s", gots[i], wants[i])
		}
	}
}

// goldenGateway is a running gateway, with its responses.
type goldenGateway struct {
	*guardedGateway
	public   string
	patterns []string          // of all routes, and paths of gRPC methods without a JSON route
	vars     map[string]string // saved values
	names    *strings.Replacer // names for what differs from run to run
	out      bytes.Buffer
}

// routesOfMux returns the patterns of the admin API, and the paths of gRPC methods that have no JSON route.
func routesOfMux(t *testing.T, p *app.App) []string {
	t.Helper()
	mount, err := p.AdminServices()
	check.Must(t, err)
	var mux *guard.Mux
	_, err = gateway.NewAdmin(gateway.AdminConfig{API: func(m *guard.Mux) { mux = m; mount(m) },
		Metrics: http.NotFoundHandler(), Console: console.Handler(console.Console)})
	check.Must(t, err)
	var services, all []string
	for _, route := range mux.Routes() {
		if service, _, is := strings.Cut(strings.TrimPrefix(route, "/"), "/"); is && strings.HasPrefix(route, "/") {
			services = append(services, service)
		}
	}
	methods, err := guard.JSONRoutes(services)
	check.Must(t, err)
	inJSON := map[string]bool{}
	for route, method := range methods {
		all, inJSON[method] = append(all, route), true
	}
	for _, route := range mux.Routes() {
		switch {
		case strings.HasPrefix(route, "/") && !inJSON[route]:
			all = append(all, "gRPC "+route)
		case !strings.HasPrefix(route, "/"):
			all = append(all, route)
		}
	}
	return all
}

var (
	patternVariable = regexp.MustCompile(`\\\{[^}]*\\\}`)
	savedVariable   = regexp.MustCompile(`\{(\w+)\}`)
)

// routeOf returns the pattern of a request: the matching one with the fewest variables, and the longest of
// those.
func (g *goldenGateway) routeOf(verb, path string) (best string) {
	fewest := 0
	for _, pattern := range g.patterns {
		method, template, _ := strings.Cut(pattern, " ")
		expression := patternVariable.ReplaceAllString(regexp.QuoteMeta(strings.ReplaceAll(template, "{$}", "")),
			"[^/]+")
		if strings.HasSuffix(template, "/") {
			expression += ".*"
		}
		if method != verb || !regexp.MustCompile("^"+expression+"$").MatchString(path) {
			continue
		}
		variables := strings.Count(template, "{")
		if best == "" || variables < fewest || variables == fewest && len(pattern) > len(best) {
			best, fewest = pattern, variables
		}
	}
	return best
}

// fill replaces the names of saved values.
func (g *goldenGateway) fill(text string) string {
	return savedVariable.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := g.vars[name[1:len(name)-1]]; ok {
			return v
		}
		return name
	})
}

// refusals records the admin API's responses to operators without the role.
func (g *goldenGateway) refusals(t *testing.T, q *goldenRequest) {
	t.Helper()
	var all []string
	for _, who := range []string{"anonymous", "no role", "acme's viewer"} {
		if who == "acme's viewer" && q.messages > 0 {
			continue // a stream without an end
		}
		refused := *q
		refused.as = who
		code, form, body := g.send(t, &refused)
		var problem struct{ Reason string }
		if strings.HasPrefix(form, "application/problem+json") {
			_ = json.Unmarshal(body, &problem)
			form = problem.Reason
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", who, code, form)))
	}
	fmt.Fprintf(&g.out, "\n=== %s\nrefusals: %s\n", q.route, strings.Join(all, "; "))
}

// record makes a request and writes its response.
func (g *goldenGateway) record(t *testing.T, q *goldenRequest) {
	t.Helper()
	code, form, body := g.send(t, q)
	if q.until != "" {
		check.Until(t, q.route+" to have "+q.until, func() (bool, string) {
			code, form, body = g.send(t, q)
			for _, part := range strings.Split(q.until, " & ") {
				if text, absent := strings.CutPrefix(part, "!"); strings.Contains(string(body), text) == absent {
					return false, string(body)
				}
			}
			return true, ""
		})
	}
	for _, s := range q.save {
		name, path, _ := strings.Cut(s, " ")
		g.vars[name] = valueAt(t, q.route, body, path)
	}
	as := q.as
	if as == "" {
		as = "admin"
	}
	fmt.Fprintf(&g.out, "\n=== %s as %s %s\n%s %s\n", q.route, as, q.body, code, form)
	switch {
	case strings.Contains(form, "json") && !strings.HasPrefix(q.route, "GET /openapi"):
		g.out.WriteString(g.normal(t, body))
	case q.messages > 0 || strings.HasPrefix(q.route, "GET /livez"):
		g.out.WriteString(g.plain(string(body)))
	}
}

// valueAt returns a string in JSON by its path, such as approvals.0.id.
func valueAt(t *testing.T, route string, body []byte, path string) string {
	t.Helper()
	var v any
	check.Must(t, json.Unmarshal(body, &v))
	for _, step := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			if len(at) == 0 {
				t.Fatalf("%s: %s is not in %s", route, path, body)
			}
			v = at[0]
		}
	}
	text, ok := v.(string)
	if !ok {
		t.Fatalf("%s: %s is not in %s", route, path, body)
	}
	return text
}

// send makes a request once.
func (g *goldenGateway) send(t *testing.T, q *goldenRequest) (code, form string, body []byte) {
	t.Helper()
	verb, path, _ := strings.Cut(g.fill(q.route), " ")
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	key := g.credential(q.as)
	if verb == "gRPC" {
		return g.sendRPC(ctx, t, q, path, key)
	}
	req, err := http.NewRequestWithContext(ctx, verb, "http://"+g.admin+path, strings.NewReader(g.fill(q.body)))
	check.Must(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if q.form {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(q.head); i += 2 {
		req.Header.Set(q.head[i], g.fill(q.head[i+1]))
	}
	resp, err := clienttest.HTTP.Transport.RoundTrip(req) // follows no redirect
	check.Must(t, err)
	defer resp.Body.Close()
	if cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";"); cookie != "" {
		g.vars["cookie"] = cookie
	}
	form = resp.Header.Get("Content-Type")
	if strings.HasPrefix(form, "text/event-stream") && q.messages > 0 {
		body = g.events(t, q, resp.Body)
	} else if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatalf("%s: %v", q.route, err)
	}
	return fmt.Sprint(resp.StatusCode), form, body
}

// events reads server-sent events.
func (g *goldenGateway) events(t *testing.T, q *goldenRequest, from io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	one, called := make([]byte, 1), false
	for bytes.Count(b.Bytes(), []byte("event: ")) < q.messages || !bytes.HasSuffix(b.Bytes(), []byte("\n\n")) {
		if _, err := from.Read(one); err != nil {
			t.Fatalf("%s: %v after %s", q.route, err, b.Bytes())
		}
		b.Write(one)
		_, begun, _ := bytes.Cut(b.Bytes(), []byte("\n\n")) // after the prelude, the stream reports its start
		if !called && q.call != "" && bytes.HasSuffix(begun, []byte("\n")) {
			called = true
			g.invoke(t, q.call)
		}
	}
	return b.Bytes()
}

// sendRPC calls a gRPC method without a JSON route; its messages become lines of JSON.
func (g *goldenGateway) sendRPC(ctx context.Context, t *testing.T, q *goldenRequest, path, key string) (code,
	form string, body []byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(
		strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")))
	check.Must(t, err)
	method := d.(protoreflect.MethodDescriptor) //nolint:forcetypeassert // the path is that of a method
	req := dynamicpb.NewMessage(method.Input())
	check.Must(t, protojson.Unmarshal([]byte(g.fill(q.body)), req))
	stream, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	check.Must(t, err)
	_ = stream.SendMsg(req)
	_ = stream.CloseSend()
	var lines []string
	for len(lines) < q.messages {
		resp := dynamicpb.NewMessage(method.Output())
		if err = stream.RecvMsg(resp); err != nil {
			if err == io.EOF { //nolint:errorlint // RecvMsg returns it as it is
				err = nil
			}
			break
		}
		text, err := protojson.Marshal(resp)
		check.Must(t, err)
		if lines = append(lines, g.normal(t, text)); len(lines) == 1 && q.call != "" {
			g.invoke(t, q.call)
		}
	}
	if err != nil {
		return status.Code(err).String(), reasonOfStatus(err), nil
	}
	return "OK", "messages", []byte(strings.Join(lines, ""))
}

// credential returns a credential by its name.
func (g *goldenGateway) credential(who string) string {
	switch who {
	case "":
		return g.keys["admin"]
	case "anonymous":
		return ""
	}
	return g.keys[who]
}

// invoke calls a tool at the public port as ann of acme; a slash separates its capability and name.
func (g *goldenGateway) invoke(t *testing.T, tool string) {
	t.Helper()
	capability, name, _ := strings.Cut(tool, "/")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.keys["caller"], "x-user-id",
		"ann")
	_, _ = dial(t, g.public).Invoke(ctx, &docpb.InvokeRequest{CapabilityId: capability, ToolName: name,
		ArgsJson: []byte(`{"city":"Rome"}`)}) // an approval is an error, too
}
