package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/testkit/clocktest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// fullStore has no room for revocations of single sessions.
type fullStore struct{ session.Store }

func (s fullStore) Revoke(ctx context.Context, all []session.Revocation) error {
	if all[0].Session != "" {
		return session.ErrFull
	}
	return s.Store.Revoke(ctx, all)
}

// TestEndOwnWithoutRoom: a sign-out for which there is no room ends all sessions that the person has, at all replicas,
// and none that begins later.
func TestEndOwnWithoutRoom(t *testing.T) {
	t.Parallel()
	store, c := gatewaytest.OpenStore(t, "embedded"), clocktest.New(time.Now())
	here := session.New(fullStore{store.People()}, session.Options{Now: c.Now})
	there := session.New(store.People(), session.Options{Now: c.Now})
	begin := func() *session.Session {
		s := &session.Session{Via: session.ViaPerson, User: "ann", Issuer: "corp"}
		if _, refusal := here.Issue(t.Context(), session.Inbox, s); refusal != nil {
			t.Fatal(refusal)
		}
		return s
	}
	ended, other := begin(), begin()
	c.Add(time.Second)
	if refusal := here.EndOwn(t.Context(), ended); refusal != nil {
		t.Fatal(refusal)
	}
	next := begin()
	there.Read(t.Context())
	for name, m := range map[string]*session.Manager{"here": here, "there": there} {
		if m.Valid(ended) || m.Valid(other) || !m.Valid(next) {
			t.Errorf("%s: ended %v, the other %v, the next %v", name, m.Valid(ended), m.Valid(other), m.Valid(next))
		}
	}
}
