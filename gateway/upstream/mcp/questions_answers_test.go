package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// newPaying serves a tool in one of the eras that asks its client to open a URL.
func newPaying(t *testing.T, old bool, url func() string) *remote {
	t.Helper()
	r := newRemote(t, old)
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			page := &sdk.ElicitParams{Mode: "url", Message: "pay", URL: url(), ElicitationID: "1"}
			if old {
				if _, err := q.Session.Elicit(ctx, page); err != nil {
					return nil, err
				}
			} else if len(q.Params.InputResponses) == 0 {
				return &sdk.CallToolResult{RequestState: "s", InputRequests: sdk.InputRequestMap{"p": page}}, nil
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "paid"}}}, nil
		})
	return r
}

// TestURLsOfTheGateway: a server cannot lead a user to the gateway, whose pages approve calls: neither to its public
// URL, nor to the address at which the client reaches it. Other URLs pass.
func TestURLsOfTheGateway(t *testing.T) {
	t.Parallel()
	for server, old := range eras {
		for _, client := range []string{"2026-07-28", "2025-11-25"} {
			if old && client == "2026-07-28" {
				continue
			}
			t.Run(server+" "+client, func(t *testing.T) {
				t.Parallel()
				var url string
				w := startAsking(t, newPaying(t, old, func() string { return url }), []string{"elicitation"},
					func(o *gatewaytest.Options) {
						o.MCP.Settings.Own = questions.NewOwn([]string{"gate.example"}, nil)
					})
				_, port, err := net.SplitHostPort(w.gateway.Addr)
				check.Must(t, err)
				var opened []string
				s := w.connect(t, sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
					Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
						URL: &sdk.URLElicitationCapabilities{}}},
					ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
						opened = append(opened, r.Params.URL)
						return &sdk.ElicitResult{Action: "accept"}, nil
					}}), client)
				for _, url = range []string{"https://gate.example/approvals/1",
					"http://" + w.gateway.Addr + "/approvals/1", "http://localhost:" + port + "/approvals/1"} {
					text, failed := ask(t, s)
					if !failed || !strings.Contains(text, "is an address of the gateway itself") {
						t.Errorf("%s: %q, %t", url, text, failed)
					}
				}
				url = "https://pay.example/1"
				if text, failed := ask(t, s); failed || text != "paid" {
					t.Errorf("%s: %q, %t", url, text, failed)
				}
				if !slices.Equal(opened, []string{url}) {
					t.Errorf("the client opened %q", opened)
				}
			})
		}
	}
}

// TestAnswersOfRepeatedCalls: of inputResponses, a server gets the answers to its own questions, which are checked as
// on a stream. It gets no call with an invalid one. Without the state of the questions, each is checked as an answer
// to some question.
func TestAnswersOfRepeatedCalls(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	form := &sdk.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object"}}
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if q.Params.RequestState == "" && len(q.Params.InputResponses) == 0 {
				return &sdk.CallToolResult{RequestState: "s",
					InputRequests: sdk.InputRequestMap{"a": form, "b": form}}, nil
			}
			got := slices.Sorted(maps.Keys(q.Params.InputResponses))
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "got " +
				strings.Join(got, ",") + "."}}}, nil
		})
	w := startAsking(t, r, []string{"forms"})
	const call = `"name":"` + id + `__asks","arguments":{}`
	var first struct {
		Result struct {
			State string `json:"requestState"`
		} `json:"result"`
	}
	check.Must(t, json.Unmarshal([]byte(w.post(t, "", "", call)), &first))
	const accept = `{"action":"accept","content":{}}`
	state := `,"requestState":"` + first.Result.State + `"`
	for name, c := range map[string]struct {
		responses, state, want string
		calls                  int32
	}{
		"both":              {`{"a":` + accept + `,"b":` + accept + `}`, state, "got a,b.", 1},
		"one, and another":  {`{"a":` + accept + `,"other":` + accept + `}`, state, "got a.", 1},
		"none":              {`{}`, state, "got .", 1},
		"without the state": {`{"a":` + accept + `,"x":` + accept + `}`, "", "got a,x.", 1},
		"invalid, without":  {`{"a":{"action":"approve"}}`, "", "of inputResponses", 0},
		"another action":    {`{"a":` + accept + `,"b":{"action":"approve"}}`, state, "must have an action", 0},
		"another case":      {`{"a":{"Action":"accept"}}`, state, "must have an action", 0},
		"of another kind":   {`{"a":{"roots":[]}}`, state, "must have an action", 0},
		"too long": {`{"a":{"action":"accept","content":{"x":"` + strings.Repeat("x", questions.MaxAnswer) + `"}}}`,
			state, "has more than 1048576 bytes", 0},
	} {
		before := r.calls.Load()
		got := w.post(t, "", "", call+c.state+`,"inputResponses":`+c.responses)
		if !strings.Contains(got, c.want) || c.calls == 0 && !strings.Contains(got, `"code":-32602`) {
			t.Errorf("%s: %.300s", name, got)
		}
		if calls := r.calls.Load() - before; calls != c.calls {
			t.Errorf("%s: the server got %d calls", name, calls)
		}
	}
}

// recorder records the responses of a client.
type recorder struct {
	http.RoundTripper
	mu   sync.Mutex
	sent []*http.Request
	body [][]byte
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Body != nil {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return nil, err
		}
		q = q.Clone(q.Context())
		q.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(`"method"`)) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sent, r.body = append(r.sent, q), append(r.body, body)
		}
	}
	return r.RoundTripper.RoundTrip(q)
}

// TestResponsesAfterTheCall: a response to a question whose call has ended is accepted and ignored: the client may have
// sent it before the end. A response to no question of the session is an error.
func TestResponsesAfterTheCall(t *testing.T) {
	t.Parallel()
	for server, old := range eras {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			r := newAsking(t, old)
			w := startAsking(t, r, []string{"elicitation", "sampling", "roots"})
			way := &recorder{RoundTripper: clienttest.Bound(&http.Transport{DisableKeepAlives: true})}
			s, err := answering(func(string) {}).Connect(within(t), &sdk.StreamableClientTransport{
				Endpoint: "http://" + w.gateway.Addr + "/mcp", HTTPClient: &http.Client{Transport: way},
				MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			check.Must(t, err)
			check.Cleanup(t, func() { _ = s.Close() })
			if text, failed := ask(t, s); failed || text != "Ann hello file:///home/ann" {
				t.Errorf("%q, %t", text, failed)
			}
			calls := r.calls.Load()
			way.mu.Lock()
			defer way.mu.Unlock()
			if len(way.sent) != 3 {
				t.Fatalf("the client sent %d responses", len(way.sent))
			}
			again := func(i int, body []byte) int {
				q, err := http.NewRequestWithContext(within(t), http.MethodPost, way.sent[i].URL.String(),
					bytes.NewReader(body))
				check.Must(t, err)
				q.Header = way.sent[i].Header.Clone()
				resp, err := clienttest.HTTP.Do(q)
				check.Must(t, err)
				check.Must(t, resp.Body.Close())
				return resp.StatusCode
			}
			for i, body := range way.body {
				if got := again(i, body); got != http.StatusAccepted {
					t.Errorf("a late response has the status %d", got)
				}
			}
			if got := again(0, []byte(`{"jsonrpc":"2.0","id":"x","result":{"action":"accept"}}`)); got !=
				http.StatusBadRequest {
				t.Errorf("a response to nothing has the status %d", got)
			}
			if r.calls.Load() != calls {
				t.Error("a late response caused a call")
			}
		})
	}
}
