package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// switchableTransport sends each request to the gateway that is set at that time.
type switchableTransport struct {
	http.RoundTripper
	to     atomic.Value // address
	header []string     // of each request: names and values in turn
}

func (s *switchableTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = s.to.Load().(string)
	r.URL = &url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path}
	for i := 0; i < len(s.header); i += 2 {
		r.Header.Set(s.header[i], s.header[i+1])
	}
	return s.RoundTripper.RoundTrip(r)
}

// mcpCaller is a session of the SDK's client whose requests may go to any gateway.
type mcpCaller struct {
	*sdk.ClientSession
	way *switchableTransport
}

func (c *mcpCaller) steer(g *member) { c.way.to.Store(g.addr) }

// connect starts a session at the first replica. shows handles the page of an approval; if it is nil, the
// client does not declare that it shows pages.
func (c *mcpApprovals) connect(t *testing.T, revision string, shows func()) *mcpCaller {
	t.Helper()
	var options sdk.ClientOptions
	if shows != nil {
		options.Capabilities = &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			URL: &sdk.URLElicitationCapabilities{}}}
		options.ElicitationHandler = func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			shows()
			return &sdk.ElicitResult{Action: "accept"}, nil
		}
	}
	return c.connectClient(t, revision, options)
}

// connectClient starts a session of a client with options.
func (c *mcpApprovals) connectClient(t *testing.T, revision string, options sdk.ClientOptions) *mcpCaller {
	t.Helper()
	s := &mcpCaller{way: &switchableTransport{RoundTripper: clienttest.Bound(&http.Transport{DisableKeepAlives: true}),
		header: c.caller}}
	s.steer(c.began)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &options).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: "http://gateway/mcp", HTTPClient: &http.Client{Transport: s.way}},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	check.Must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	s.ClientSession = session
	return s
}

// echo calls the tool that returns its arguments, which are a text.
func (c *mcpCaller) echo(t *testing.T, text string) (*sdk.CallToolResult, error) {
	t.Helper()
	return c.CallTool(t.Context(), &sdk.CallToolParams{Name: "caps__" + gatewaytest.Echo,
		Arguments: map[string]any{"call": text}})
}

// echoed fails the test if a result differs from the arguments.
func echoed(t *testing.T, what string, r *sdk.CallToolResult, err error) {
	t.Helper()
	if err != nil || r.IsError {
		t.Errorf("%s: %+v, %v", what, r, err)
		return
	}
	if got, _ := json.Marshal(r.StructuredContent); string(got) != mcpArgs(what) {
		t.Errorf("%s: %s", what, got)
	}
}

func mcpArgs(text string) string { return `{"call":"` + text + `"}` }

// mcpApprovals makes calls that start at the first replica, are approved at the second, and get their results
// from the third.
type mcpApprovals struct {
	*cluster
	began, fetched *member
	desk           capgatepb.ApprovalsClient
	caller         []string // headers of a caller that may approve its own calls
	events         grpc.ServerStreamingClient[capgatepb.WatchApprovalsResponse]
}

func startMCPApprovals(t *testing.T) *mcpApprovals {
	t.Helper()
	key := writeConfig(t, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	credential, entry := operatorKey("scopes: [invoke, read, approve], asserts: [user]")
	c, _, desks := startAsking(t, "", "secret_file: "+key,
		"approvals: {rules: [{capability: caps, self: true}]}",
		"tenants: [{id: default, capabilities: ['*'], keys: ["+entry+"]}]")
	events, err := desks[1].WatchApprovals(t.Context(), &capgatepb.WatchApprovalsRequest{})
	check.Must(t, err)
	_, err = events.Recv() // its first attempt
	check.Must(t, err)
	return &mcpApprovals{cluster: c, began: c.gateways[0], fetched: c.gateways[2], desk: desks[1], events: events,
		caller: []string{"X-Api-Key", credential, "X-User-Id", "ann"}}
}

// next returns the id of the next pending approval.
func (c *mcpApprovals) next(t *testing.T) (id string) {
	t.Helper()
	return nextIn(t, c.events, "pending")
}

func (c *mcpApprovals) approve(t *testing.T, id string) {
	t.Helper()
	if _, err := c.desk.Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: id}); err != nil {
		t.Error(err)
	}
}

// TestMCPApprovalsOfAllReplicas: a call starts at one replica, is approved at another, and its result comes
// from the third, which reads the session of the first, even if the first is killed meanwhile. The call runs
// once, with one approval.
func TestMCPApprovalsOfAllReplicas(t *testing.T) {
	t.Parallel()
	c := startMCPApprovals(t)
	forms := map[string]func(t *testing.T, text, revision string, kills bool){"page": c.page, "held": c.held,
		"task": c.task, "form": c.form, "late answer": c.lateAnswer}
	var all []string
	for form, run := range forms {
		for _, revision := range []string{"2026-07-28", "2025-11-25"} {
			if form == "task" && revision != "2026-07-28" {
				continue // has none
			}
			for _, kills := range []bool{false, true} {
				if form == "late answer" && (!kills || revision == "2026-07-28") {
					continue // of a call that ends with its stream
				}
				text := fmt.Sprintf("%s %s %t", form, revision, kills)
				run(t, text, revision, kills)
				if all = append(all, text); kills {
					c.startGateway(t, c.began)
				}
			}
		}
	}
	c.cancelled(t)
	asked, err := c.desk.ListApprovals(t.Context(), &capgatepb.ListApprovalsRequest{PageSize: 100})
	check.Must(t, err)
	if n := len(asked.GetApprovals()); n != len(all)+1 {
		t.Errorf("%d approvals of %d calls", n, len(all)+1)
	}
	came := c.came(t)
	for _, text := range all {
		if came[mcpArgs(text)] != 1 {
			t.Errorf("%s: the backends got the call %d times", text, came[mcpArgs(text)])
		}
	}
	if len(came) != len(all) {
		t.Errorf("the backends got %v", came)
	}
}

// cancelled cancels a held call by a notification to another replica.
func (c *mcpApprovals) cancelled(t *testing.T) {
	t.Helper()
	resp, _ := postMCP(t, c.began,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
			`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, c.caller...)
	of := append([]string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"},
		c.caller...)
	ended := make(chan string, 1)
	go func() {
		_, text := postMCP(t, c.began, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"caps__echo",`+
			`"arguments":`+mcpArgs("cancelled")+`}}`, of...)
		ended <- text
	}()
	c.next(t)
	check.Until(t, "all replicas to hear of cancelled requests", func() (bool, string) {
		heard := fmt.Sprint(c.redis.Do("PUBSUB", "NUMSUB", "cg:cancelled"))
		return strings.HasSuffix(heard, fmt.Sprintf(" %d]", len(c.gateways))), heard
	})
	postMCP(t, c.fetched, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, of...)
	if text := check.Received(t, ended,
		"the end of a call that is cancelled at another replica"); strings.Contains(text,
		`"result"`) {
		t.Errorf("a call that was cancelled at another replica: %s", text)
	}
}

// page makes a call whose client shows the page of the approval to its user.
func (c *mcpApprovals) page(t *testing.T, text, revision string, kills bool) {
	var s *mcpCaller
	shows := func() {
		if kills {
			c.began.kill()
		}
		c.approve(t, c.next(t))
		s.steer(c.fetched)
	}
	s = c.connect(t, revision, shows)
	r, err := s.echo(t, text)
	var required *jsonrpc.Error
	if errors.As(err, &required) && required.Code == sdk.CodeURLElicitationRequired { // before 2026-07-28
		shows()
		r, err = s.echo(t, text)
	}
	echoed(t, text, r, err)
}

// form makes a call whose client shows its user a form and answers at another replica. Before 2026-07-28, a
// call ends with the stream of its gateway, and the same call elsewhere uses the same approval.
func (c *mcpApprovals) form(t *testing.T, text, revision string, kills bool) {
	var s *mcpCaller
	id, lost := "", kills && revision != "2026-07-28"
	s = c.connectForm(t, revision, func() error {
		if id != "" {
			return nil
		}
		id = c.next(t)
		if s.steer(c.fetched); kills {
			c.began.kill()
		}
		if lost {
			return errors.New("the form is closed with its call")
		}
		return nil
	})
	r, err := s.echo(t, text)
	if lost {
		if err == nil {
			t.Errorf("%s: a call outlives its gateway: %+v", text, r)
		}
		r, err = s.echo(t, text)
	}
	echoed(t, text, r, err)
}

// lateAnswer makes a call whose user answers the form after its gateway was killed. The same call elsewhere
// runs without another form.
func (c *mcpApprovals) lateAnswer(t *testing.T, text, revision string, _ bool) {
	var s *mcpCaller
	var forms atomic.Int32
	s = c.connectForm(t, revision, func() error {
		if forms.Add(1); forms.Load() == 1 {
			c.next(t)
			s.steer(c.fetched)
			c.began.kill()
		}
		return nil
	})
	if r, err := s.echo(t, text); err == nil {
		t.Errorf("%s: a call outlives its gateway: %+v", text, r)
	}
	nextIn(t, c.events, "approved")
	r, err := s.echo(t, text)
	if echoed(t, text, r, err); forms.Load() != 1 {
		t.Errorf("%s: %d forms", text, forms.Load())
	}
}

// connectForm starts a session of a client that shows forms. Its user approves once answers returns no error.
func (c *mcpApprovals) connectForm(t *testing.T, revision string, answers func() error) *mcpCaller {
	t.Helper()
	return c.connectClient(t, revision, sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if err := answers(); err != nil {
				return nil, err
			}
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
		},
	})
}

// held makes a call that is held at its gateway. If that is killed, the same call attaches to its approval
// elsewhere.
func (c *mcpApprovals) held(t *testing.T, text, revision string, kills bool) {
	s := c.connect(t, revision, nil)
	ends := make(chan func(), 1)
	begin := func(lost bool) {
		r, err := s.echo(t, text)
		ends <- func() {
			if !lost {
				echoed(t, text, r, err)
			} else if err == nil {
				t.Errorf("%s: a call outlives its gateway: %+v", text, r)
			}
		}
	}
	go begin(kills)
	id := c.next(t)
	if kills {
		c.began.kill()
		check.Received(t, ends, "the end of the held call")()
		s.steer(c.fetched)
		go begin(false)
	}
	c.approve(t, id)
	check.Received(t, ends, "the end of the held call")()
}

// task makes a call whose client gets a task as the result, and polls it until it has ended.
func (c *mcpApprovals) task(t *testing.T, text, _ string, kills bool) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/` +
		`clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	var answer struct {
		Result struct {
			TaskID, Status string
			Result         struct{ StructuredContent json.RawMessage }
		}
	}
	ask := func(g *member, method, name, params string) {
		_, text := postMCP(t, g, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+meta+`,`+params+`}}`,
			append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name},
				c.caller...)...)
		check.Must(t, json.Unmarshal([]byte(text), &answer))
	}
	ask(c.began, "tools/call", "caps__echo", `"name":"caps__echo","arguments":`+mcpArgs(text))
	id := c.next(t)
	if kills {
		c.began.kill()
	}
	c.approve(t, id)
	check.Until(t, "the task to end", func() (bool, string) {
		ask(c.fetched, "tasks/get", id, `"taskId":"`+id+`"`)
		return answer.Result.Status != "working", answer.Result.Status
	})
	if r := answer.Result; r.Status != "completed" || string(r.Result.StructuredContent) != mcpArgs(text) {
		t.Errorf("%s: task %s is %s, its result is %s", text, r.TaskID, r.Status, r.Result.StructuredContent)
	}
}
