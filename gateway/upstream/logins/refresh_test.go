package logins_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestUnsavedTokens: a refreshed token that cannot be stored is used by its replica, which stores it with the next
// refresh.
func TestUnsavedTokens(t *testing.T) {
	t.Parallel()
	a := serve(t)
	redis := gatewaytest.StartRedis(t)
	k := &kept{Store: redis.Open(t).Logins()}
	l := open(k, 1, fleet())
	put(t, l, a.record(-time.Minute))
	k.set(true)
	ctx, cancel := context.WithTimeout(t.Context(), 2*check.Patience)
	defer cancel()
	of, err := l.Of("files").Token(ctx, http.DefaultClient, oauth.Refusal{})
	check.Must(t, err)
	if again := token(l, oauth.Refusal{}); of.AccessToken != "access-1" || again != "access-1" {
		t.Errorf("%q, then %q", of.AccessToken, again)
	}
	k.set(false)
	if issued, denied := a.counts(); issued != 1 || denied != 0 {
		t.Errorf("%d refreshes, %d denied", issued, denied)
	}
}

// TestLoginDuringRefresh: a login that an operator makes during a refresh is the one that counts.
func TestLoginDuringRefresh(t *testing.T) {
	t.Parallel()
	a := serve(t)
	l := open(gatewaytest.StartRedis(t).Open(t).Logins(), 1, fleet())
	put(t, l, a.record(-time.Minute))
	next := a.record(time.Hour)
	next.Access = "access-of-login"
	a.during = func() { check.Must(t, l.Put(context.Background(), "files", server, next)) }
	for range 2 {
		if got := token(l, oauth.Refusal{}); got != "access-of-login" {
			t.Error(got)
		}
	}
}

// TestFailedRefreshes: while the authorization server does not respond as it should, the login stays, and the error
// shows nothing of its response.
func TestFailedRefreshes(t *testing.T) {
	t.Parallel()
	a := serve(t)
	l := open(gatewaytest.StartRedis(t).Open(t).Logins(), 1, fleet())
	a.Respond = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = fmt.Fprint(w, "secret-page")
		return true
	}
	put(t, l, a.record(-time.Minute))
	if got := token(l, oauth.Refusal{}); !strings.Contains(got, "502") || strings.Contains(got, "secret-page") {
		t.Error(got)
	}
	if s := state(t, l); s.State != logins.Active || !s.Refreshable {
		t.Errorf("%+v", s)
	}
}
