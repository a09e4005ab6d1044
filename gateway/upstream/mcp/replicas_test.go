package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// secret returns the keys of replicas.
func secret(context.Context) [][]byte { return [][]byte{bytes.Repeat([]byte{7}, 32)} }

// replica runs a gateway that shares sessions by a store.
func replica(t *testing.T, store sessions.Store, r *remote) *mcpGateway {
	t.Helper()
	return startServers(t, gatewaytest.Options{}, upstream.Options{Version: "test",
		Sessions: &sessions.Shared{Store: store, Keys: secret}}, withSharedSessions, r.URL)
}

// withSharedSessions is withSessions at a server that all replicas reach, although its address is that of each machine.
func withSharedSessions(f *upstream.Fleet, of *gatewaytest.Fleet) {
	withSessions(f, of)
	settings(f).Sessions = mcp.SharedSessions
}

// counts calls a replica in a session, which must have had n-1 calls.
func (w *mcpGateway) counts(t *testing.T, session string, n int) {
	t.Helper()
	w.wantResult(t, in(session), fmt.Sprintf(`{"calls":%d}`, n))
}

// TestReplicasContinueSessions: a session at a server goes on whichever replica its calls come through, and when a
// replica stops and another one starts. Sessions of other names are others.
func TestReplicasContinueSessions(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	j := newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	next := func() *mcpGateway { return replica(t, redis.Open(t).UpstreamSessions(), r) }
	all := []*mcpGateway{next(), next(), next()}
	for n := range 12 {
		all[n%3].counts(t, "a", n+1)
		all[n%3].counts(t, "", n+1)
	}
	all[0].gateway.Stop(t)
	all[0] = next()
	for n := 12; n < 18; n++ {
		all[n%3].counts(t, "a", n+1)
	}
	for _, w := range all {
		w.gateway.Stop(t)
	}
	j.want(t, 2, 0)
	next().counts(t, "a", 19)
	j.want(t, 2, 0)
}

// TestReplicasCancelCalls: what replicas send in one session has ids of its own: calls with progress, and
// cancellations.
func TestReplicasCancelCalls(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	j := newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	for range 3 {
		w := replica(t, redis.Open(t).UpstreamSessions(), r)
		for range 2 {
			req := request("progress", `{}`)
			req.SessionId = "a"
			stream, err := w.StreamInvoke(within(t), req)
			check.Must(t, err)
			chunks := 0
			for _, err = stream.Recv(); err == nil; _, err = stream.Recv() {
				chunks++
			}
			if !errors.Is(err, io.EOF) || chunks != 4 {
				t.Errorf("%d chunks, %v", chunks, err)
			}
			ctx, cancel := context.WithCancel(within(t))
			var calling sync.WaitGroup
			calling.Go(func() {
				req := request("wait", `{}`)
				req.SessionId = "a"
				if _, err := w.Invoke(ctx, req); err == nil {
					t.Error("a cancelled call has a result")
				}
			})
			check.Received(t, r.began, "the call at the server")
			cancel()
			if err := check.Received(t, r.ended, "its end at the server"); !errors.Is(err, context.Canceled) {
				t.Errorf("the call at the server ended with %v", err)
			}
			calling.Wait()
		}
	}
	j.want(t, 1, 0)
}

// TestReplicasOpenOneSession: of two replicas that open a session at once, one continues that of the other and ends its
// own.
func TestReplicasOpenOneSession(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	redis := gatewaytest.StartRedis(t)
	next := func() *mcpGateway { return replica(t, redis.Open(t).UpstreamSessions(), r) }
	all := []*mcpGateway{next(), next()}
	for n, w := range all {
		w.counts(t, "first", n+1) // then each knows that the server has sessions
	}
	j := newJournal(t, r)
	var opening sync.WaitGroup
	opening.Add(2)
	handler := *r.handler.Load()
	served := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost && q.Header.Get("Mcp-Session-Id") == "" {
			opening.Done()
			opening.Wait()
		}
		handler.ServeHTTP(w, q)
	}))
	r.handler.Store(&served)
	var calling sync.WaitGroup
	for _, w := range all {
		calling.Go(func() {
			if _, err := w.Invoke(within(t), in("a")); err != nil {
				t.Error(err)
			}
		})
	}
	calling.Wait()
	for n, w := range all {
		w.counts(t, "a", n+3)
	}
	j.want(t, 1, 0)
	check.Until(t, "the end of the other session", func() (bool, string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		return len(j.deleted) == 1, fmt.Sprint(j.deleted)
	})
}

// TestForgottenSessionsOfReplicas: when a server has forgotten a session, replicas continue a new one together, also a
// replica that has not used the former one.
func TestForgottenSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	for how, restart := range map[string]func(*remote){
		"404": (*remote).restart,
		"400": (*remote).restartStrictly,
		"500": func(r *remote) { r.restartSaying(says(500, "text/plain", "KeyError")) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, true)
			redis := gatewaytest.StartRedis(t)
			next := func() *mcpGateway { return replica(t, redis.Open(t).UpstreamSessions(), r) }
			all := []*mcpGateway{next(), next(), next()}
			all[0].counts(t, "a", 1)
			all[1].counts(t, "a", 2)
			restart(r)
			j := newJournal(t, r)
			for n := range 6 {
				all[(n+2)%3].counts(t, "a", n+1)
			}
			j.mu.Lock()
			defer j.mu.Unlock()
			if len(j.called) != 2 { // the former one was rejected
				t.Errorf("%d sessions, want 2: %v", len(j.called), j.called)
			}
		})
	}
}

// TestUnusedSessionsOfReplicas: an unused session ends at the server once, and not while another replica uses it.
func TestUnusedSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	j := newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	var late atomic.Bool
	next := func() *mcpGateway { return replica(t, &unused{redis.Open(t).UpstreamSessions(), &late}, r) }
	all := []*mcpGateway{next(), next(), next()}
	for n, w := range all {
		w.counts(t, "a", n+1)
	}
	sweep := func(w *mcpGateway) {
		mcp.Age(w.servers, id, r.URL, 24*time.Hour)
		if _, err := w.Invoke(within(t), in("another")); err != nil {
			t.Error(err)
		}
	}
	of := slices.Collect(maps.Keys(j.called))[0]
	ended := func() int {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.deleted[of]
	}
	sweep(all[0])
	all[0].counts(t, "a", 4)
	all[0].gateway.Stop(t)
	if n := ended(); n != 0 {
		t.Errorf("the session was ended %d times while other replicas use it", n)
	}
	late.Store(true)
	for _, w := range all[1:] {
		sweep(w)
		w.gateway.Stop(t)
	}
	if n := ended(); n != 1 {
		t.Errorf("the unused session was ended %d times", n)
	}
	next().counts(t, "a", 1)
}

// unused is a store in which all sessions have not been used for long if late is true.
type unused struct {
	sessions.Store
	late *atomic.Bool
}

func (u *unused) End(ctx context.Context, name sessions.Name, id string, idle time.Duration) (bool, error) {
	if u.late.Load() {
		idle = 0
	}
	return u.Store.End(ctx, name, id, idle)
}

// TestSessionsWhileRedisIsFrozen: calls go on, in sessions of each replica. Afterwards replicas continue one again.
func TestSessionsWhileRedisIsFrozen(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	one, two := redis.OpenPrompt(t), redis.OpenPrompt(t)
	all := []*mcpGateway{replica(t, one.UpstreamSessions(), r), replica(t, two.UpstreamSessions(), r)}
	all[0].counts(t, "a", 1)
	redis.Freeze()
	all[0].counts(t, "a", 2)
	all[1].counts(t, "a", 1)
	all[1].counts(t, "b", 1)
	all[0].counts(t, "c", 1)
	redis.Thaw()
	check.Until(t, "Redis", func() (bool, string) { return !one.Unavailable() && !two.Unavailable(), "unavailable" })
	for _, w := range all {
		mcp.Age(w.servers, id, r.URL, 10*time.Minute)
	}
	all[1].counts(t, "a", 3)
	all[1].counts(t, "b", 2)
	all[0].counts(t, "b", 3)
	all[0].counts(t, "a", 4)
}

// TestSessionsAfterRedisIsEmptied: replicas still continue one session, and no two have the same range of ids.
func TestSessionsAfterRedisIsEmptied(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	j := newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	next := func() *mcpGateway { return replica(t, redis.Open(t).UpstreamSessions(), r) }
	all := []*mcpGateway{next(), next()}
	n := 0
	for range 2 {
		for _, w := range all {
			n++
			w.counts(t, "a", n)
		}
		redis.Empty()
		for _, w := range all {
			mcp.Age(w.servers, id, r.URL, 10*time.Minute)
			n++
			w.counts(t, "a", n)
		}
		all = append(all, next())
	}
	j.want(t, 1, 0)
}

// TestSessionsOfOtherSecrets: a session that another secret has encrypted, or that was forged, is not continued.
func TestSessionsOfOtherSecrets(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	replica(t, redis.Open(t).UpstreamSessions(), r).counts(t, "a", 1)
	other := startServers(t, gatewaytest.Options{}, upstream.Options{Sessions: &sessions.Shared{
		Store: redis.Open(t).UpstreamSessions(),
		Keys:  func(context.Context) [][]byte { return [][]byte{make([]byte, 32)} }}}, withSharedSessions, r.URL)
	without := startServers(t, gatewaytest.Options{}, upstream.Options{Sessions: &sessions.Shared{
		Store: redis.Open(t).UpstreamSessions(), Keys: func(context.Context) [][]byte { return nil }}},
		withSharedSessions, r.URL)
	forged := replica(t, &forger{}, r)
	for n := range 3 {
		for _, w := range []*mcpGateway{other, without, forged} {
			w.counts(t, "a", n+1)
			mcp.Age(w.servers, id, r.URL, 10*time.Minute)
		}
	}
}

// forger is a store with a session that no replica has stored.
type forger struct{}

func (*forger) Enter(context.Context, sessions.Name, sessions.Session, time.Duration) ([]byte, int64, error) {
	return []byte(`{"id":"x","result":{"protocolVersion":"2025-11-25"}}`), 1, nil
}

func (*forger) End(context.Context, sessions.Name, string, time.Duration) (bool, error) {
	return true, nil
}

// TestSessionsOfTenantsAtReplicas: a replica continues no session of another tenant.
func TestSessionsOfTenantsAtReplicas(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	redis := gatewaytest.StartRedis(t)
	var all []func(of, session string) (string, error)
	for range 2 {
		all = append(all, tenantsOf(t, r, true, mcp.Open(upstream.Options{Sessions: &sessions.Shared{
			Store: redis.Open(t).UpstreamSessions(), Keys: secret}})))
	}
	for n := range 4 {
		for _, of := range []string{"acme", "globex"} {
			if got, err := all[n%2](of, "a"); err != nil || got != fmt.Sprintf(`{"calls":%d}`, n+1) {
				t.Errorf("call %d of %s: %s, %v", n, of, got, err)
			}
		}
	}
}
