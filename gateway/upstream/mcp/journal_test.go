package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
)

// journal records the sessions at a server, and finds ids that repeat in one.
type journal struct {
	of *remote

	mu      sync.Mutex
	called  map[string]int             // session → its tools/call
	deleted map[string]int             // session → its DELETE
	ids     map[string]map[string]bool // session → ids of requests, and progress tokens
	wrong   []string
}

// newJournal records the sessions at r.
func newJournal(t *testing.T, r *remote) *journal {
	t.Helper()
	j := &journal{of: r, called: map[string]int{}, deleted: map[string]int{}, ids: map[string]map[string]bool{}}
	j.wrap()
	t.Cleanup(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, text := range j.wrong {
			t.Error(text)
		}
	})
	return j
}

// wrap records the requests to the handler of the server.
func (j *journal) wrap() {
	next := *j.of.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		session := q.Header.Get("Mcp-Session-Id")
		if q.Method == http.MethodDelete {
			j.mu.Lock()
			j.deleted[session]++
			j.mu.Unlock()
		}
		if q.Method != http.MethodPost {
			next.ServeHTTP(w, q)
			return
		}
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		if session != "" {
			j.request(session, body)
			next.ServeHTTP(w, q)
			return
		}
		next.ServeHTTP(w, q)
		if session = w.Header().Get("Mcp-Session-Id"); session != "" {
			j.request(session, body)
		}
	}))
	j.of.handler.Store(&served)
}

// request records a message of a client.
func (j *journal) request(session string, body []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			RequestID json.RawMessage `json:"requestId"`
			Meta      struct {
				Token string `json:"progressToken"`
			} `json:"_meta"`
		}
	}
	_ = json.Unmarshal(body, &m)
	j.mu.Lock()
	defer j.mu.Unlock()
	ids := j.ids[session]
	if ids == nil {
		ids = map[string]bool{}
		j.ids[session] = ids
	}
	for _, id := range []string{string(m.ID), m.Params.Meta.Token} {
		if m.Method != "" && id != "" && ids[id] {
			j.wrong = append(j.wrong, fmt.Sprintf("a session has %s twice: %s", id, body))
		}
		ids[id] = true
	}
	if m.Method == "notifications/cancelled" && !ids[string(m.Params.RequestID)] {
		j.wrong = append(j.wrong, fmt.Sprintf("a cancellation of an unknown request: %s", body))
	}
	if m.Method == "tools/call" {
		j.called[session]++
	}
}

// sessions returns the number of sessions that calls used, and of those the ones that clients ended.
func (j *journal) sessions() (used, ended int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for session := range j.called {
		if used++; j.deleted[session] > 0 {
			ended++
		}
	}
	return used, ended
}

// want checks the numbers of sessions.
func (j *journal) want(t *testing.T, used, ended int) {
	t.Helper()
	if gotUsed, gotEnded := j.sessions(); gotUsed != used || gotEnded != ended {
		t.Errorf("calls used %d sessions, of which clients ended %d; want %d, %d", gotUsed, gotEnded, used, ended)
	}
}
