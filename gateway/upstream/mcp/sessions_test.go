package mcp_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// withSessions binds callers' sessions to servers.
func withSessions(f *mcp.Fleet, of *gatewaytest.Fleet) {
	f.Sessions, of.Affinity = true, router.Affinity{Sessions: true}
}

// in is a call of count in a session.
func in(session string) *docpb.InvokeRequest {
	req := request("count", `{}`)
	req.SessionId = session
	return req
}

// TestSessions: with affinity, each session of a tenant has its own at the server, which is opened anew when the server
// does not know it any more.
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

// TestSessionsOfReplicas: a session is bound to one of the servers, whatever replica its calls come through. Each
// replica has a session of its own there.
func TestSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	remotes := []*remote{newRemote(t, true), newRemote(t, true)}
	redis := gatewaytest.StartRedis(t)
	var replicas []*world
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
