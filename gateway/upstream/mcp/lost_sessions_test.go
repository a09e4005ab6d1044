package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// TestServersThatForgetSessionsOtherwise: whatever a server answers to a request of a session that it does not know,
// the call is made once more, in a new session.
func TestServersThatForgetSessionsOtherwise(t *testing.T) {
	t.Parallel()
	rpc := func(id, code string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` + code + `,"message":"Session not found"}}`
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, string){
		"410":                   says(410, "text/plain", "gone"),
		"401":                   says(401, "application/json", `{"error":"invalid session"}`),
		"403":                   says(403, "application/json", `{"error":"invalid session"}`),
		"422":                   says(422, "application/json", `{"detail":"unknown session"}`),
		"500":                   says(500, "text/plain", "KeyError"),
		"500 with an id":        says(500, "application/json", rpc("ID", "-32603")),
		"-32001":                says(200, "application/json", rpc("ID", "-32001")),
		"-32001 without an id":  says(200, "application/json", rpc("null", "-32001")),
		"-32001 in an event":    says(200, "text/event-stream", "data: "+rpc("ID", "-32001")+"\n\n"),
		"-32001 and no request": says(200, "text/event-stream", "data: "+rpc("null", "-32001")+"\n\n"),
		"400 with -32001":       says(400, "application/json", rpc("ID", "-32001")),
		"404 with -32001":       says(404, "application/json", rpc("ID", "-32001")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, true)
			w := start(t, withSessions, r.URL)
			w.wantResult(t, in("a"), `{"calls":1}`)
			w.wantResult(t, in("a"), `{"calls":2}`)
			before := r.calls.Load()
			r.restartSaying(answer)
			for n := range 3 {
				w.wantResult(t, in("a"), fmt.Sprintf(`{"calls":%d}`, n+1))
			}
			if n := r.calls.Load() - before; n != 4 { // one of them was rejected
				t.Errorf("%d calls", n)
			}
		})
	}
}

// restartSaying is restart for a server with its own answer to a request of an unknown session.
func (r *remote) restartSaying(answer func(w http.ResponseWriter, q *http.Request, id string)) {
	var known sync.Map
	r.restart()
	next := *r.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if session := q.Header.Get("Mcp-Session-Id"); session != "" {
			if _, ok := known.Load(session); !ok {
				var m struct{ ID json.RawMessage }
				_ = json.NewDecoder(q.Body).Decode(&m)
				answer(w, q, string(m.ID))
				return
			}
			next.ServeHTTP(w, q)
			return
		}
		out := &recorded{ResponseWriter: w}
		next.ServeHTTP(out, q)
		known.Store(w.Header().Get("Mcp-Session-Id"), true)
		out.send(func(text string) string { return text })
	}))
	r.handler.Store(&served)
}

// TestFailuresInSessions: a failure of a call in a session that the server knows is the caller's, once, and the session
// stays.
func TestFailuresInSessions(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, string){
		"500": says(500, "text/plain", "no disk"),
		"-32001": says(200, "application/json",
			`{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"Request timed out"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, true)
			var failed atomic.Int32
			r.hostile("tools/call", `"name":"echo"`, func(w http.ResponseWriter, q *http.Request, id string) {
				failed.Add(1)
				answer(w, q, id)
			})
			w := start(t, withSessions, r.URL)
			w.wantResult(t, in("a"), `{"calls":1}`)
			req := request("echo", `{}`)
			req.SessionId = "a"
			if _, err := w.Invoke(within(t), req); err == nil || failed.Load() != 1 {
				t.Errorf("%v after %d calls", err, failed.Load())
			}
			w.wantResult(t, in("a"), `{"calls":2}`)
		})
	}
}
