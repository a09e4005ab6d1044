package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestMessagesWithoutASessionByJSON: the response header and each event name the session that the gateway
// created, and a message with that session continues the conversation.
func TestMessagesWithoutASessionByJSON(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP ", version), func(t *testing.T) {
			t.Parallel()
			f := startEngines(t, &guard.Settings{Queue: 100}, engine.Config{ApprovalIDs: true})
			attendDirectly(t, f.addr)
			e := &engineJSON{t: t, gateway: f.gateway, client: f.gateway.HTTP1(t)}
			if version == 2 {
				e.client = f.gateway.HTTP2(t)
			}
			made := map[string]bool{}
			for range 2 {
				session := e.sessionOf(`{"content":"hi"}`)
				if len(session) < 20 || made[session] {
					t.Errorf("session %q", session)
				}
				made[session] = true
				if again := e.sessionOf(`{"content":"again","session_id":"` + session + `"}`); again != session {
					t.Errorf("session %q, continued as %q", session, again)
				}
				e.wants("GET", "/engine-1/sessions/"+session+"/history", "", http.StatusOK, `"again"`)
			}
		})
	}
}

// sessionOf sends a message and returns the session of its events, which must be in the response header if the
// message names none.
func (e *engineJSON) sessionOf(body string) (session string) {
	e.t.Helper()
	resp := e.begin("POST", "/engine-1/messages", body)
	inHeader := strings.Join(resp.Header.Values("X-Session-Id"), "|")
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var event struct {
			Session string `json:"session_id"`
		}
		check.Must(e.t, json.Unmarshal(lines.Bytes(), &event))
		if session == "" {
			session = event.Session
		}
		if event.Session != "" && event.Session != session {
			e.t.Errorf("events of %q and %q", session, event.Session)
		}
	}
	if want := map[bool]string{true: "", false: session}[strings.Contains(body, "session_id")]; inHeader != want ||
		session == "" {
		e.t.Errorf("HTTP/%d: the header has %q, the events are of %q", resp.ProtoMajor, inHeader, session)
	}
	return session
}
