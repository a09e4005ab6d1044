package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// say sends a message of 2025-11-25 in a session, without an SDK. The caller must close the body of the response.
func (w *mcpGateway) say(t *testing.T, credential, session, message string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+w.gateway.Addr+"/mcp",
		strings.NewReader(message))
	check.Must(t, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Session-Id": session,
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-11-25",
		"X-Api-Key": credential, "X-User-Id": "ann"} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := clienttest.HTTP.Do(r)
	check.Must(t, err)
	return resp
}

// answer sends a message that has no answer of its own, and returns the status and the body.
func (w *mcpGateway) answer(t *testing.T, credential, session, message string) (status int, text string) {
	t.Helper()
	resp := w.say(t, credential, session, message)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, string(body)
}

// begin starts a session whose client shows forms.
func (w *mcpGateway) begin(t *testing.T, credential string) (session string) {
	t.Helper()
	resp := w.say(t, credential, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":`+
		`"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	check.Must(t, resp.Body.Close())
	return resp.Header.Get("Mcp-Session-Id")
}

// TestFloodsOfAnswers: while a question of a server is open, its client gets many answers at once that are forged, of
// other sessions and callers, of another kind, or too long. Each gets its error, none ends the question, and none
// reaches the server. Then the first valid answer is the only one.
func TestFloodsOfAnswers(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			got, err := q.Session.Elicit(ctx, &sdk.ElicitParams{Message: "?",
				RequestedSchema: map[string]any{"type": "object"}})
			if err != nil {
				return nil, err
			}
			text, err := json.Marshal(got.Content)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}, err
		})
	var keys map[string]string
	w := startAsking(t, r, []string{"forms"}, func(o *gatewaytest.Options) { keys = ofTwoTenants(t, o) })
	own, other, foreign := w.begin(t, keys["acme"]), w.begin(t, keys["acme"]), w.begin(t, keys["globex"])
	call := w.say(t, keys["acme"], own, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+id+
		`__asks","arguments":{}}}`)
	defer func() { _ = call.Body.Close() }()
	events := bufio.NewReader(call.Body)
	asked := event(t, events)
	question := string(asked.ID)
	changed := question[:40] + "A" + question[41:]
	if changed == question {
		changed = question[:40] + "B" + question[41:]
	}
	const accept = `{"action":"accept","content":{"n":"forged"}}`
	response := func(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}` }
	hostile := []struct{ credential, session, message, want string }{
		{keys["acme"], own, response(changed, accept), "MCP_ANSWER_UNKNOWN"},
		{keys["acme"], own, response(`"x"`, accept), "MCP_ANSWER_UNKNOWN"},
		{keys["acme"], own, response(`1`, accept), "MCP_ANSWER_UNKNOWN"},
		{keys["acme"], own, response(`"`+own+`"`, accept), "MCP_ANSWER_UNKNOWN"},
		{keys["acme"], other, response(question, accept), "MCP_ANSWER_UNKNOWN"},
		{keys["acme"], "", response(question, accept), "MCP_ANSWER_UNKNOWN"},
		{keys["globex"], foreign, response(question, accept), "MCP_ANSWER_UNKNOWN"},
		{keys["globex"], own, response(question, accept), "MCP_SESSION_UNKNOWN"},
		{keys["acme"], own, response(question, `{"action":"approve"}`), "INVALID_BODY"},
		{keys["acme"], own, response(question, `{"roots":[]}`), "INVALID_BODY"},
		{keys["acme"], own, response(question, `{"action":"accept","content":{"n":"`+strings.Repeat("x", 1<<20)+
			`"}}`), "INVALID_BODY"},
	}
	const times = 20
	var flood sync.WaitGroup
	for _, h := range hostile {
		flood.Go(func() {
			for range times {
				if status, text := w.answer(t, h.credential, h.session, h.message); status/100 != 4 ||
					!strings.Contains(text, h.want) {
					t.Errorf("%.200s: %d %.300s, want %s", h.message, status, text, h.want)
				}
			}
		})
	}
	flood.Wait()
	if t.Failed() {
		return
	}
	valid := response(question, `{"action":"accept","content":{"n":"valid"}}`)
	for _, message := range []string{valid, valid, response(question, accept)} {
		if status, text := w.answer(t, keys["acme"], own, message); status != http.StatusAccepted {
			t.Errorf("a valid answer: %d %s", status, text)
		}
	}
	if result := event(t, events); !strings.Contains(string(result.Result), `{\"n\":\"valid\"}`) {
		t.Errorf("the result is %s", result.Result)
	}
	if n := r.calls.Load(); n != 1 {
		t.Errorf("the server got %d calls", n)
	}
	// The id of a question is no state of a call.
	if got := w.post(t, keys["acme"], "ann", `"name":"`+id+`__asks","arguments":{},"requestState":`+question); !strings.
		Contains(got, "MCP_STATE_INVALID") {
		t.Errorf("the id of a question as a state: %s", got)
	}
}

// rpcEvent is a message in an event.
type rpcEvent struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
}

// event reads the next message of a stream.
func event(t *testing.T, in *bufio.Reader) (m rpcEvent) {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		check.Must(t, err)
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			check.Must(t, json.Unmarshal([]byte(data), &m))
			return m
		}
	}
}
