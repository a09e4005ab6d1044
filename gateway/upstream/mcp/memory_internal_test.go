package mcp

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// countingServer returns a server that only counts.
func countingServer() *server {
	return &server{all: &upstream.Fleets[*server]{Options: upstream.Options{Room: &upstream.Room{}}},
		fleet:    &upstream.Fleet{SessionTTL: time.Hour},
		sessions: map[sessionKey]*session{}, tenants: map[string]int{}, users: map[user]int{},
		follows: map[string]*fairshare.Pool{}}
}

// TestUsersShareSessions: beyond the sessions of a tenant, or its memory, one of the user with the most ends. A user
// whose sessions are all in use ends unused ones of others, but not for memory. If all are in use, a call is refused.
func TestUsersShareSessions(t *testing.T) {
	t.Parallel()
	v := countingServer()
	v.all.Room.Charge(fairshare.New("sessions", maxTenantSessions*2*sessionCost))
	var releases []func()
	open := func(by string, n int, held bool) {
		t.Helper()
		for range n {
			_, release, err := v.lease(sessionKey{tenant: "acme", session: fmt.Sprint(by, " ", len(releases))}, by)
			if err != nil {
				t.Fatal(err)
			}
			if releases = append(releases, release); !held {
				release()
			}
		}
	}
	want := func(sessions map[string]int) {
		t.Helper()
		total := 0
		for by, n := range sessions {
			total += n
			if got := v.users[user{"acme", by}]; got != n {
				t.Errorf("%s has %d sessions, want %d", by, got, n)
			}
		}
		if got := v.tenants["acme"]; got != total || len(v.sessions) != total {
			t.Errorf("%d and %d sessions, want %d", got, len(v.sessions), total)
		}
	}
	open("bob", 10, false)
	open("alice", 1200, false)
	want(map[string]int{"alice": 990, "bob": 10})
	open("bob", 40, false)
	want(map[string]int{"alice": 950, "bob": 50})
	v.all.Room.Charge(fairshare.New("sessions", 0))
	if _, _, err := v.lease(sessionKey{tenant: "acme", session: "more"}, "carol"); err == nil {
		t.Fatal("a session without memory")
	}
	if got := v.users[user{"acme", "bob"}]; got > 0 { // all were free to end
		t.Errorf("bob has %d sessions", got)
	}
	v.all.Room.Charge(fairshare.New("sessions", maxTenantSessions*2*sessionCost))
	open("bob", 10, false)
	open("carol", 5, false)
	open("alice", 900, true)
	v.all.Room.Charge(fairshare.New("sessions", 0))
	full(t, v, "acme", "alice")
	want(map[string]int{"alice": 900, "bob": 10, "carol": 5})
	v.all.Room.Charge(fairshare.New("sessions", maxTenantSessions*2*sessionCost))
	open("alice", 85, true)
	want(map[string]int{"alice": 985, "bob": 10, "carol": 5})
	open("carol", 5, false)
	want(map[string]int{"alice": 985, "bob": 7, "carol": 8})
	open("alice", 15, true)
	want(map[string]int{"alice": 1000, "bob": 0, "carol": 0})
	for _, by := range []string{"alice", "carol"} {
		full(t, v, "acme", by)
	}
	want(map[string]int{"alice": 1000, "bob": 0, "carol": 0})
	for _, release := range releases[len(releases)-15:] {
		release()
	}
	open("alice", 1, false)
	want(map[string]int{"alice": 1000, "carol": 0})
	open("carol", 5, false)
	want(map[string]int{"alice": 995, "carol": 5})
}

// full checks that a user gets no session.
func full(t *testing.T, v *server, tenant, by string) {
	t.Helper()
	_, _, err := v.lease(sessionKey{tenant: tenant, session: "more"}, by)
	if status.Convert(err).Code() != codes.ResourceExhausted {
		t.Errorf("a session more of %s: %v", by, err)
	}
}

// TestTenantsShareSessions: beyond the sessions of a server, one of the tenant with the most ends, or of another one if
// those are in use. If all are in use, only the session of all callers opens.
func TestTenantsShareSessions(t *testing.T) {
	t.Parallel()
	v := countingServer()
	open := func(tenant string, n int) (last func()) {
		t.Helper()
		for i := range n {
			_, release, err := v.lease(sessionKey{tenant: tenant, session: fmt.Sprint(i)}, "alice")
			if err != nil {
				t.Fatal(err)
			}
			last = release
		}
		return last
	}
	for i := range maxSessions/maxTenantSessions - 1 {
		open(fmt.Sprint(i), maxTenantSessions)
	}
	small := open("small", 10)
	large := open("large", maxTenantSessions-10)
	small()
	large()
	open("new", 2)
	want := map[string]int{"large": maxTenantSessions - 11, "small": 9, "new": 2}
	for tenant, n := range want {
		if v.tenants[tenant] != n {
			t.Errorf("%s has %d sessions, want %d", tenant, v.tenants[tenant], n)
		}
	}
	full(t, v, "new", "alice")
	if _, release, err := v.lease(sessionKey{}, ""); err != nil || len(v.sessions) != maxSessions+1 {
		t.Errorf("%v, %d sessions", err, len(v.sessions))
	} else {
		release()
	}
}

// TestUsersShareSubscriptions: a user keeps at most four times as many streams and sessions by subscriptions as its
// tenant has left, and those of other tenants do not count. Subscriptions of one session count once.
func TestUsersShareSubscriptions(t *testing.T) {
	t.Parallel()
	v := countingServer()
	var releases []func()
	subscribe := func(tenant, name string, n, want int) {
		t.Helper()
		for i := range n {
			of, s := user{tenant, name}, &session{}
			release, ok := v.chargedStream(of)
			if i%2 == 1 {
				if ok {
					release()
				}
				if release, ok = v.chargedFollow(s, of); ok {
					again, held := v.chargedFollow(s, of)
					if !held {
						t.Fatal("a session that is kept counts again")
					}
					releases = append(releases, again)
				}
			}
			if ok != (i < want) {
				t.Fatalf("subscription %d of %s: %t", i, name, ok)
			}
			if ok {
				releases = append(releases, release)
			}
		}
	}
	subscribe("acme", "alice", 810, 800)
	subscribe("acme", "bob", 170, 160)
	subscribe("globex", "alice", 810, 800)
	for _, release := range releases {
		release()
	}
	if len(v.follows) > 0 {
		t.Errorf("the subscriptions of %d tenants are left", len(v.follows))
	}
}
