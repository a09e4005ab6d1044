package mcp_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/mcp"
	"github.com/capgate/capgate/gateway/upstream/sessions"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestEachReplicaHasItsOwnServer: behind a loopback address each replica may have another server, so they share no
// sessions there by default. Those of each server go on.
func TestEachReplicaHasItsOwnServer(t *testing.T) {
	t.Parallel()
	redis := gatewaytest.StartRedis(t)
	one, two := newRemote(t, true), newRemote(t, true)
	var turn atomic.Pointer[remote]
	behind := newRemote(t, true)
	next := *behind.handler.Load()
	serves := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if at := turn.Load(); at != nil {
			(*at.handler.Load()).ServeHTTP(w, q)
			return
		}
		next.ServeHTTP(w, q)
	}))
	behind.handler.Store(&serves)
	var all []*mcpGateway
	for _, r := range []*remote{one, two} {
		turn.Store(r)
		all = append(all, startServers(t, gatewaytest.Options{}, upstream.Options{Sessions: &sessions.Shared{
			Store: redis.Open(t).UpstreamSessions(), Keys: secret}}, withSessions, behind.URL))
	}
	for n := range 3 {
		for i, r := range []*remote{one, two} {
			turn.Store(r)
			all[i].counts(t, "a", n+1)
			mcp.Age(all[i].servers, id, behind.URL, 10*time.Minute)
		}
	}
}

// TestRoomIsMadeHereAlone: a replica that makes room does not end sessions that another one uses, and neither does one
// to which the server refuses connections. Other sessions end at the server.
func TestRoomIsMadeHereAlone(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	j := newJournal(t, r)
	redis := gatewaytest.StartRedis(t)
	one := replica(t, redis.Open(t).UpstreamSessions(), r)
	two := replica(t, redis.Open(t).UpstreamSessions(), r)
	one.counts(t, "a", 1)
	two.counts(t, "a", 2)
	one.counts(t, "own", 1)
	mcp.Room(one.servers, id, r.URL)
	mcp.Room(one.servers, id, r.URL)
	check.Until(t, "the end of the session of one replica", func() (bool, string) {
		_, ended := j.sessions()
		return ended == 1, fmt.Sprint(ended)
	})
	two.counts(t, "a", 3)
	one.counts(t, "a", 4)
	one.counts(t, "own", 1)
	mcp.Drop(one.servers, id, r.URL)
	check.Until(t, "the end of the session of one replica", func() (bool, string) {
		_, ended := j.sessions()
		return ended == 2, fmt.Sprint(ended)
	})
	two.counts(t, "a", 5)
	one.counts(t, "a", 6)
	one.counts(t, "own", 1)
}
