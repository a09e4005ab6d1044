package mcp_test

import (
	"fmt"
	"net/http"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// withSessions binds callers' sessions to servers.
func withSessions(f *upstream.Fleet, of *gatewaytest.Fleet) {
	f.Sessions, of.Affinity = true, router.Affinity{Sessions: true}
}

// in returns a call of count in a session.
func in(session string) *docpb.InvokeRequest {
	req := request("count", `{}`)
	req.SessionId = session
	return req
}

// TestSessions: with affinity, each session of a tenant has its own at the server, which is opened anew when the
// server does not know it any more.
func TestSessions(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	w := start(t, withSessions, r.URL)
	w.wantResult(t, in("a"), `{"calls":1}`)
	w.wantResult(t, in("a"), `{"calls":2}`)
	w.wantResult(t, in("b"), `{"calls":1}`)
	before := r.calls.Load()
	r.restart()
	w.wantResult(t, in("a"), `{"calls":1}`)
	if n := r.calls.Load() - before; n != 2 { // one that was answered with 404
		t.Errorf("%d calls", n)
	}
}

// TestServersThatRejectUnknownSessions: a server that answers 400 to a session that it does not know, after a restart,
// gets the call once more, in a new session. With a session that never worked, or for a request that the server names,
// 400 is an error.
func TestServersThatRejectUnknownSessions(t *testing.T) {
	t.Parallel()
	for _, bound := range []bool{true, false} {
		r := newRemote(t, true)
		w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
			f.Sessions, of.Affinity = bound, router.Affinity{Sessions: bound}
		}, r.URL)
		w.wantResult(t, in("a"), `{"calls":1}`)
		before := r.calls.Load()
		r.restartStrictly()
		for n := range 3 {
			w.wantResult(t, in("a"), fmt.Sprintf(`{"calls":%d}`, n+1))
		}
		if n := r.calls.Load() - before; n != 4 { // one of them was rejected
			t.Errorf("%d calls", n)
		}
	}
}

// TestServersOfBothEras: where sessions are to stay at a server, a revision with sessions is used, also if the server
// has one without.
func TestServersOfBothEras(t *testing.T) {
	t.Parallel()
	both := newRemote(t, false)
	withoutSessions := *both.handler.Load()
	older := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return both.mcp }, nil)
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" { // it has sessions in the older revisions alone
			withoutSessions.ServeHTTP(w, q)
			return
		}
		older.ServeHTTP(w, q)
	}))
	both.handler.Store(&served)
	w := start(t, withSessions, both.URL)
	w.wantResult(t, in("a"), `{"calls":1}`)
	w.wantResult(t, in("a"), `{"calls":2}`)
	w.wantResult(t, in("b"), `{"calls":1}`)
	named := newRemote(t, false)
	named.handler.Store(&served)
	w = start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) { settings(f).Revision = "2025-06-18" }, named.URL)
	w.wantResult(t, in("a"), `{"calls":1}`)
	if both.inits.Load() == 0 || named.inits.Load() == 0 {
		t.Errorf("%d and %d sessions were opened", both.inits.Load(), named.inits.Load())
	}
	stateless := newRemote(t, false) // has no sessions
	w = start(t, withSessions, stateless.URL)
	if got, err := w.Invoke(within(t), request("echo", `{"text":"x"}`)); err != nil || got.GetError() != "" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSessionsOfReplicas: a session is bound to one of the servers, whatever replica its calls come through. Each
// replica has a session of its own there.
func TestSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	remotes := []*remote{newRemote(t, true), newRemote(t, true)}
	redis := gatewaytest.StartRedis(t)
	var replicas []*mcpGateway
	for range 3 {
		replicas = append(replicas, startWith(t, gatewaytest.Options{Store: redis.Open(t).Sessions()}, withSessions,
			remotes[0].URL, remotes[1].URL))
	}
	used := map[int]bool{}
	for session := range 20 {
		home := -1
		for call := range 6 {
			before := [2]int32{remotes[0].calls.Load(), remotes[1].calls.Load()}
			w := replicas[(session+call)%3]
			w.wantResult(t, in(fmt.Sprint("session-", session)), fmt.Sprintf(`{"calls":%d}`, call/3+1))
			now := 0
			if remotes[1].calls.Load() > before[1] {
				now = 1
			}
			if home >= 0 && now != home || remotes[now].calls.Load() != before[now]+1 {
				t.Fatalf("call %d of session %d came to server %d, the first to %d", call, session, now, home)
			}
			home = now
		}
		used[home] = true
	}
	if len(used) != 2 {
		t.Error("one server got all sessions")
	}
}
