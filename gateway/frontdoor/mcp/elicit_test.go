package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Invoke implements grpc.ClientConnInterface: the caller may answer the approval, once.
func (a *asking) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	if got, is := reply.(*capgatepb.GetApprovalResponse); is {
		got.Approval = &capgatepb.Approval{MayAnswer: true, User: "ann", Arguments: "{}"}
		return nil
	}
	a.answers = append(a.answers, method[strings.LastIndex(method, "/")+1:])
	return nil
}

// begin returns the id of a session whose client shows forms.
func (a *asking) begin(revision string) string {
	return a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + revision + `",` +
		`"capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}`).Header().Get("Mcp-Session-Id")
}

// question makes a call that is not answered in time. It returns the id of the request that its stream has.
func (a *asking) question(session, revision string) string {
	a.t.Helper()
	text := a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo","arguments":{}}}`,
		"Mcp-Session-Id", session, "Mcp-Protocol-Version", revision, "Accept", "application/json, text/event-stream").
		Body.String()
	var ids []string
	for event := range strings.SplitSeq(text, "\n\n") {
		var m struct {
			Method string
			ID     any
			Params struct{ RequestID string }
			Result struct{ IsError bool }
		}
		_, data, _ := strings.Cut(event, "data: ")
		switch _ = json.Unmarshal([]byte(data), &m); {
		case m.Method == "elicitation/create":
			ids = append(ids, m.ID.(string))
		case m.Method == "notifications/cancelled":
			ids = append(ids, m.Params.RequestID)
		case m.Result.IsError:
			ids = append(ids, fmt.Sprint(m.ID))
		}
	}
	if len(ids) != 3 || ids[0] != ids[1] || ids[2] != "1" {
		a.t.Fatalf("the stream is not a request, its cancellation, and the result of the call: %s", text)
	}
	return ids[0]
}

// TestAnswers: an answer to a request of the server is that of its caller and session, or it gets an error.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const accepted = `"result":{"action":"accept","content":{"approve":true}}`
	for _, revision := range []string{"2025-11-25", "2025-06-18"} {
		a := newAsking(t)
		session, other := a.begin(revision), a.begin(revision)
		a.caller = "globex"
		foreign := a.begin(revision)
		a.caller = "acme"
		id := a.question(session, revision)
		for name, c := range map[string]struct {
			caller, session, id, body, version string
			status                             int
			want                               string // the reason, or how the approval is answered
		}{
			"approved":     {"acme", session, id, accepted, revision, 202, "Approve"},
			"not approved": {"acme", session, id, `"result":{"action":"accept"}`, revision, 202, "Deny"},
			"approved by a text": {"acme", session, id,
				`"result":{"action":"accept","content":{"approve":"true"}}`, revision, 202, "Deny"},
			"declined": {"acme", session, id, `"result":{"action":"decline"}`, revision, 202,
				"Deny"},
			"cancelled": {"acme", session, id, `"result":{"action":"cancel"}`, revision, 202, "Deny"},
			"an error": {"acme", session, id, `"error":{"code":-1,"message":"x"}`, revision, 202,
				""},
			"no action": {"acme", session, id, `"result":{}`, revision, 400, "INVALID_BODY"},
			"another action": {"acme", session, id, `"result":{"action":"approve"}`, revision, 400,
				"INVALID_BODY"},
			"no object": {"acme", session, id, `"result":true`, revision, 400, "INVALID_BODY"},
			"a result and an error": {"acme", session, id, accepted + `,"error":{"code":-1,"message":"x"}`,
				revision, 400, "INVALID_BODY"},
			"forged":                      {"acme", session, forged(id), accepted, revision, 400, "MCP_ANSWER_UNKNOWN"},
			"of an unknown request":       {"acme", session, "1", accepted, revision, 400, "MCP_ANSWER_UNKNOWN"},
			"a session as the id":         {"acme", session, session, accepted, revision, 400, "MCP_ANSWER_UNKNOWN"},
			"of another session":          {"acme", other, id, accepted, revision, 400, "MCP_ANSWER_UNKNOWN"},
			"of no session":               {"acme", "", id, accepted, revision, 400, "MCP_ANSWER_UNKNOWN"},
			"of another caller":           {"globex", foreign, id, accepted, revision, 400, "MCP_ANSWER_UNKNOWN"},
			"of another caller's session": {"globex", session, id, accepted, revision, 404, "MCP_SESSION_UNKNOWN"},
			"of a revision without them":  {"acme", session, id, accepted, "2026-07-28", 400, "MCP_ANSWER_UNKNOWN"},
		} {
			a.caller, a.answers = c.caller, nil
			w := a.send(`{"jsonrpc":"2.0","id":"`+c.id+`",`+c.body+`}`, "Mcp-Session-Id", c.session,
				"Mcp-Protocol-Version", c.version)
			got := strings.Join(a.answers, " ")
			if c.status != 202 && got == "" && strings.Contains(w.Body.String(), `"reason":"`+c.want+`"`) {
				got = c.want
			}
			if w.Code != c.status || got != c.want {
				t.Errorf("%s, %s: %d %s, %v; got %+v", revision, name, w.Code, w.Body, a.answers, got)
			}
		}
	}
}

// TestAnswersExpire: an answer counts for an hour, as long as a state does.
func TestAnswersExpire(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		a := newAsking(t)
		session := a.begin("2025-11-25")
		id := a.question(session, "2025-11-25")
		for _, want := range []int{202, 400} {
			w := a.send(`{"jsonrpc":"2.0","id":"`+id+`","result":{"action":"decline"}}`, "Mcp-Session-Id", session,
				"Mcp-Protocol-Version", "2025-11-25")
			if w.Code != want || want == 400 && !strings.Contains(w.Body.String(), "MCP_ANSWER_UNKNOWN") {
				t.Errorf("%d %s, want %d", w.Code, w.Body, want)
			}
			<-time.After(time.Hour + 2*time.Second)
		}
	})
}

// TestClientsThatAreNotAsked: a client that shows no forms, or takes no events, is asked nothing.
func TestClientsThatAreNotAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ capabilities, revision, accept string }{
		"no forms":   {`{}`, "2025-11-25", "application/json, text/event-stream"},
		"pages":      {`{"elicitation":{"url":{}}}`, "2025-06-18", "application/json, text/event-stream"},
		"no events":  {`{"elicitation":{}}`, "2025-11-25", "application/json"},
		"no version": {`{"elicitation":{}}`, "", "application/json, text/event-stream"},
		"too old":    {`{"elicitation":{}}`, "2025-03-26", "application/json, text/event-stream"},
	} {
		a := newAsking(t)
		session := a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"capabilities":` + c.capabilities +
			`,"clientInfo":{"name":"x","version":"1"}}}`).Header().Get("Mcp-Session-Id")
		w := a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caps__echo"}}`, "Mcp-Session-Id",
			session,
			"Mcp-Protocol-Version", c.revision, "Accept", c.accept)
		if w.Header().Get("Content-Type") != "application/json" ||
			strings.Contains(w.Body.String(), "elicitation/create") {
			t.Errorf("%s: %v %s", name, w.Header(), w.Body)
		}
	}
}
