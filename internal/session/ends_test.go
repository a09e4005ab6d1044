package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/session"
)

const day = 24 * time.Hour

// TestTheEndOfASession: a session ends exactly with its credential or at the configured time, whichever comes first.
func TestTheEndOfASession(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ credential, want time.Duration }{
		"of the configuration": {0, time.Hour}, "of the credential": {time.Minute, time.Minute},
		"of a long credential": {day, time.Hour},
	} {
		m, _, c := start()
		m.SetTTL(time.Hour)
		c.Set(c.Now().Truncate(time.Millisecond))
		s, end := ann(), c.Now().Add(test.want)
		if test.credential > 0 {
			s.Expires = c.Now().Add(test.credential)
		}
		cookie := issue(t, m, s)
		c.Set(end.Add(-1))
		if why := opens(t, m, cookie); why != "" {
			t.Errorf("%s: %s before the end", name, why)
		}
		c.Set(end)
		if why := opens(t, m, cookie); why != "SESSION_INVALID" {
			t.Errorf("%s: it opens at its end", name)
		}
	}
}

// TestAllSessionsEnd: ending all sessions of a person ends those that began before, including unlisted ones, in
// whatever order replicas learn of several such ends. A person of the same name at another issuer keeps hers.
func TestAllSessionsEnd(t *testing.T) {
	t.Parallel()
	m, s, c := start()
	c.Set(c.Now().Truncate(time.Millisecond))
	began := c.Now()
	first, hers := ann(), ann()
	hers.Issuer = "partner"
	one, another := issue(t, m, first), issue(t, m, hers)
	s.records = nil
	if refusal := m.EndAll(t.Context(), first.Name()); refusal != nil {
		t.Fatal(refusal)
	}
	if ended, goesOn := opens(t, m, one), opens(t, m, another); ended != "SESSION_INVALID" || goesOn != "" {
		t.Errorf("the session of that moment, and it alone, should have ended: %q, another %q", ended, goesOn)
	}
	c.Add(time.Minute)
	second := ann()
	two := issue(t, m, second)
	s.records = nil
	c.Add(time.Minute)
	_ = m.EndAll(t.Context(), second.Name())
	// A replica whose clock is behind ends them, too.
	_ = s.Revoke(t.Context(), []session.Revocation{{Name: second.Name(), Before: began, Until: began.Add(day)}})
	m.Read(t.Context())
	if opens(t, m, two) != "SESSION_INVALID" {
		t.Error("an earlier end has undone a later one")
	}
}

// TestLostRevocations: a store that loses its content gets the revocations and the key back from a replica, until the
// revoked sessions have ended by themselves, and even if it takes no writes at first.
func TestLostRevocations(t *testing.T) {
	t.Parallel()
	m, s, c := start()
	m.SetTTL(session.MaxTTL)
	one, two, three := ann(), ann(), ann()
	_ = m.EndAll(t.Context(), one.Name())
	c.Add(19 * day)
	cookies := []string{issue(t, m, one), issue(t, m, two)}
	s.records = nil
	c.Add(day)
	_ = m.EndAll(t.Context(), one.Name()) // later than before: it holds longer
	other := issue(t, m, three)
	_ = m.End(t.Context(), three.ID, time.Time{})
	c.Add(11 * day) // the first end of all sessions is over
	m.Read(t.Context())
	s.lose()
	s.frozen = errors.New("no writes")
	m.Read(t.Context())
	s.frozen = nil
	if why := opens(t, m, cookies[0]); why != "SESSION_INVALID" {
		t.Error("a session opens while the store has lost its revocation")
	}
	m.Read(t.Context())
	_ = issue(t, m, ann()) // the key is asked for again
	fresh := replicaOf(s, c)
	fresh.Read(t.Context())
	for i, cookie := range append(cookies, other) {
		if here, there := opens(t, m, cookie), opens(t, fresh, cookie); here != "SESSION_INVALID" || there != here {
			t.Errorf("session %d goes on after the store has lost its revocation: %q, at another %q", i, here, there)
		}
	}
	c.Add(time.Millisecond)
	good := issue(t, m, ann())
	if here, there := opens(t, m, good), opens(t, fresh, good); here != "" || there != "" {
		t.Errorf("a later session should open at both: they share the key; %q, %q", here, there)
	}
	s.lose() // and the key is that of before
	c.Add(2 * time.Minute)
	if opens(t, m, good) != "" {
		t.Error("the replica has another key")
	}
	late := replicaOf(s, c)
	if opens(t, late, good) != "" {
		t.Error("the store has another key than before")
	}
}

// TestEndOfAllByTheList: the sessions of a person on the list end even if the clock of the replica that issued them is
// ahead, and those of other people do not.
func TestEndOfAllByTheList(t *testing.T) {
	t.Parallel()
	ahead, s, c := start()
	hers, his := ann(), &session.Session{Via: session.ViaPerson, User: "bob", Issuer: "corp"}
	other := replicaOf(s, c)
	c.Add(time.Minute)
	issue(t, ahead, hers)
	issue(t, ahead, his)
	c.Add(-time.Minute)
	if refusal := other.EndAll(t.Context(), hers.Name()); refusal != nil {
		t.Fatal(refusal)
	}
	ahead.Read(t.Context())
	if here, there := ahead.Valid(hers), other.Valid(hers); here || there {
		t.Errorf("a session issued by a clock that is ahead goes on there: %t, at the other replica: %t", here, there)
	}
	if here, there := ahead.Valid(his), other.Valid(his); !here || !there {
		t.Errorf("another person's session goes on where the clock is ahead: %t, at the other replica: %t", here, there)
	}
}

// TestKeyOfAnotherReplica: of replicas whose store has lost the key, one gives it another one. The others seal by that
// as soon as they ask again.
func TestKeyOfAnotherReplica(t *testing.T) {
	t.Parallel()
	m, s, c := start()
	issue(t, m, ann()) // by the first key
	s.lose()
	fresh := replicaOf(s, c)
	issue(t, fresh, ann()) // by the second
	c.Add(2 * time.Minute)
	cookie := issue(t, m, ann())
	if why := opens(t, fresh, cookie); why != "" {
		t.Errorf("another replica does not open a new session: %s", why)
	}
}

// TestFailover: the last revocation, which a failover has undone, is back once a replica that knows it has read.
func TestFailover(t *testing.T) {
	t.Parallel()
	m, s, c := start()
	one, two := ann(), ann()
	cookies := []string{issue(t, m, one), issue(t, m, two)}
	for _, ended := range []*session.Session{one, two} {
		if refusal := m.End(t.Context(), ended.ID, ended.Expires); refusal != nil {
			t.Fatal(refusal)
		}
	}
	m.Read(t.Context())
	s.failOver()
	m.Read(t.Context())
	fresh := replicaOf(s, c)
	fresh.Read(t.Context())
	for i, cookie := range cookies {
		if here, there := opens(t, m, cookie), opens(t, fresh, cookie); here != "SESSION_INVALID" || there != here {
			t.Errorf("session %d goes on: %q, at a replica that has started since %q", i, here, there)
		}
	}
}

func TestSameSecret(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{{"secret", "secret", true}, {"secret", "secres", false}, {"secret", "s", false}, {"secret", "secrets", false},
		{"secret", "", false}, {"", "secret", false}, {"", "", false}} {
		if session.SameSecret(test.a, test.b) != test.want {
			t.Errorf("%q, %q: %v", test.a, test.b, !test.want)
		}
	}
}
