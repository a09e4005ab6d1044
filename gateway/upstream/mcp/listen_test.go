package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/internal/testkit/check"
)

// newStrayAsking serves a tool that asks on the stream of its session. before is called first.
func newStrayAsking(t *testing.T, before func(context.Context) error) *remote {
	t.Helper()
	r := newRemote(t, true)
	form := &sdk.ElicitParams{Message: "What is your name?", RequestedSchema: map[string]any{"type": "object",
		"properties": map[string]any{"name": map[string]any{"type": "string"}}}}
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if err := before(ctx); err != nil {
				return nil, err
			}
			ended, cancel := context.WithCancel(context.Background()) // without the call, and until its end
			defer context.AfterFunc(ctx, cancel)()
			defer cancel()
			if err := q.Session.Ping(ended, nil); err != nil {
				return nil, err
			}
			got, err := q.Session.Elicit(ended, form)
			if err != nil {
				return nil, err
			}
			name, _ := got.Content["name"].(string)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name}}}, nil
		})
	return r
}

// gets counts the GETs of a server. If refused, they have no stream.
func gets(r *remote, refused bool) *atomic.Int32 {
	var n atomic.Int32
	next := *r.handler.Load()
	counts := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet && q.Header.Get("Mcp-Session-Id") != "" {
			n.Add(1)
			if refused {
				http.Error(w, "no stream", http.StatusMethodNotAllowed)
				return
			}
		}
		next.ServeHTTP(w, q)
	}))
	r.handler.Store(&counts)
	return &n
}

// TestQuestionsOnTheSessionsStream: a server may ask on the stream of a session, where a question is for its only call.
// The calls of a session have one stream.
func TestQuestionsOnTheSessionsStream(t *testing.T) {
	t.Parallel()
	r := newStrayAsking(t, func(context.Context) error { return nil })
	w := startAsking(t, r, []string{"elicitation"})
	var message string
	s := w.connect(t, answering(func(m string) { message = m }), "2025-11-25")
	n := gets(r, false)
	for range 3 {
		text, failed := ask(t, s)
		if failed || text != "Ann" || !strings.HasPrefix(message, `Message of the tool "asks"`) {
			t.Errorf("%q, %t; the form has the message %q", text, failed, message)
		}
	}
	if n.Load() != 1 {
		t.Errorf("the session has %d streams", n.Load())
	}
}

// TestUndeclaredQuestionsOnTheSessionsStream: a client of 2026-07-28 answers questions only in results. A server of an
// earlier revision that asks on the stream of the session, although nothing is declared to it, gets an error at once.
//
//nolint:staticcheck // roots are deprecated, and still a part of the protocol
func TestUndeclaredQuestionsOnTheSessionsStream(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	r.mcp.AddTool(&sdk.Tool{Name: "asks", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, q *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			ended, cancel := context.WithCancel(context.Background()) // without the call, and until its end
			defer context.AfterFunc(ctx, cancel)()
			defer cancel()
			text := declared(q.Session.InitializeParams())
			r.declared.Store(&text)
			_, err := q.Session.ListRoots(ended, nil)
			return nil, err
		})
	w := startAsking(t, r, []string{"roots"})
	s := w.connect(t, answering(func(string) {}), "2026-07-28")
	n := gets(r, false)
	for range 2 {
		text, failed := ask(t, s)
		if kinds := *r.declared.Load(); !failed || kinds != "" ||
			!strings.Contains(text, "no client answers this request") {
			t.Errorf("%q, %t; declared: %q", text, failed, kinds)
		}
	}
	if n.Load() != 1 {
		t.Errorf("the session has %d streams", n.Load())
	}
}

// TestAmbiguousQuestions: a question on the stream of a session with two calls is for neither of them. The server gets
// an error at once.
func TestAmbiguousQuestions(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	r := newStrayAsking(t, func(context.Context) error { both.Done(); both.Wait(); return nil })
	w := startAsking(t, r, []string{"elicitation"})
	s := w.connect(t, answering(func(string) {}), "2025-11-25")
	var calls sync.WaitGroup
	refused := make(chan string, 2)
	for range 2 {
		calls.Go(func() {
			text, failed := ask(t, s)
			if failed {
				refused <- text
			}
		})
	}
	calls.Wait()
	if len(refused) == 0 { // the second question has a single call if it comes after the first one has failed
		t.Fatal("no question was refused")
	}
	if text := <-refused; !strings.Contains(text, "several calls of the session") {
		t.Errorf("%q", text)
	}
}

// TestSessionsWithoutStream: calls at a server that has no streams go on, and it is not asked for one each time.
func TestSessionsWithoutStream(t *testing.T) {
	t.Parallel()
	r := newAsking(t, true)
	w := startAsking(t, r, []string{"elicitation", "sampling", "roots"})
	s := w.connect(t, answering(func(string) {}), "2025-11-25")
	check.Until(t, "a first call", func() (bool, string) {
		text, failed := ask(t, s)
		return !failed, text
	})
	n := gets(r, true)
	other := w.connect(t, answering(func(string) {}), "2025-11-25")
	for range 3 {
		if text, failed := ask(t, other); failed {
			t.Error(text)
		}
	}
	if n.Load() != 1 {
		t.Errorf("the server got %d requests for a stream", n.Load())
	}
}
