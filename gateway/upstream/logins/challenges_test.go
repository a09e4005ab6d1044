package logins_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/gateway/upstream/oauth"
)

// TestChallenges: the next login requests the scopes of the last one and of all challenges since, within bounds, and
// reads the metadata that the server names at its own host.
func TestChallenges(t *testing.T) {
	t.Parallel()
	a, l := begin(t)
	const metadata = "https://mcp.example.com/metadata"
	if s := state(t, l); s.State != logins.Needed || !strings.Contains(s.Problem, "yet") {
		t.Errorf("%+v", s)
	}
	got := token(l, oauth.Refusal{Challenged: true, Scopes: []string{"read", `w"rong`, "read"}, Metadata: metadata})
	if s := state(t, l); !strings.Contains(got, "requires a login") || !slices.Equal(s.Ask, []string{"read"}) ||
		s.Metadata != metadata || !strings.Contains(s.Problem, "requires a login") {
		t.Errorf("%s: %+v", got, s)
	}
	put(t, l, a.record(time.Hour))
	for _, scope := range []string{"write", "admin"} {
		got := token(l, oauth.Refusal{Challenged: true, Forbidden: true, Token: "access-0", Scopes: []string{scope},
			Metadata: "https://elsewhere.example.com/metadata"})
		if !strings.Contains(got, "lacks scopes") || !strings.Contains(got, scope) {
			t.Error(got)
		}
	}
	s := state(t, l)
	if s.State != logins.Active || s.Problem != "the token lacks scopes: write admin" || s.Metadata != metadata ||
		!slices.Equal(s.Ask, []string{"read", "write", "admin"}) {
		t.Errorf("%+v", s)
	}
	var many []string
	for i := range 1000 {
		many = append(many, strconv.Itoa(i))
	}
	token(l, oauth.Refusal{Challenged: true, Forbidden: true, Token: "access-0", Scopes: many})
	if s = state(t, l); len(s.Ask) != logins.MaxScopes {
		t.Errorf("%d scopes", len(s.Ask))
	}
	put(t, l, a.record(time.Hour))
	if s = state(t, l); s.Problem != "" || !slices.Equal(s.Ask, []string{"read"}) {
		t.Errorf("after the next login: %+v", s)
	}
	set := fleet()
	set.Scopes = []string{"configured"}
	l.Set([]logins.Fleet{set})
	if s = state(t, l); !slices.Equal(s.Ask, set.Scopes) {
		t.Errorf("configured: %+v", s)
	}
}
