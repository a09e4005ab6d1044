package logins_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// unsaved returns a replica whose login has to be refreshed, and whose store takes no write.
func unsaved(t *testing.T) (*refresher, *gatewaytest.Redis, *kept, *logins.Logins) {
	t.Helper()
	a, redis := serve(t), gatewaytest.StartRedis(t)
	k := &kept{Store: redis.Open(t).Logins()}
	l := open(k, 1, fleet())
	put(t, l, a.record(-time.Minute))
	k.set(true)
	return a, redis, k, l
}

// TestUnsavedTokens: a refreshed token that cannot be stored is used by its replica. It stores the token for the others
// when that is possible.
func TestUnsavedTokens(t *testing.T) {
	t.Parallel()
	a, redis, k, l := unsaved(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*check.Patience)
	defer cancel()
	of, err := l.Of("files").Token(ctx, http.DefaultClient, oauth.Refusal{})
	check.Must(t, err)
	if again := token(l, oauth.Refusal{}); of.AccessToken != "access-1" || again != "access-1" {
		t.Errorf("%q, then %q", of.AccessToken, again)
	}
	k.set(false)
	other := open(redis.Open(t).Logins(), 1, fleet())
	for _, l := range []*logins.Logins{l, other} {
		wants(t, l, "access-1")
	}
	if issued, denied := a.counts(); issued != 1 || denied != 0 {
		t.Errorf("%d refreshes, %d denied", issued, denied)
	}
}

// TestUnsavedTokensOutliveAnEnd: another replica refreshes with a used token, because the new one was not stored. This
// does not end the login.
func TestUnsavedTokensOutliveAnEnd(t *testing.T) {
	t.Parallel()
	_, redis, k, l := unsaved(t)
	wants(t, l, "access-1")
	other := open(free{redis.Open(t).Logins()}, 1, fleet())
	if got := token(other, oauth.Refusal{}); !strings.Contains(got, "invalid_grant") {
		t.Error(got)
	}
	k.set(false)
	for _, l := range []*logins.Logins{l, other} {
		wants(t, l, "access-1")
	}
}

// free is a store whose leases are always free, as if that of another replica had expired.
type free struct{ logins.Store }

func (free) Lease(context.Context, string, string, string, time.Duration) (bool, error) {
	return true, nil
}

// TestRefreshesGoToTheIssuer: with an issuer in the configuration, the refresh token and the secret go to its token
// endpoint alone, whatever the login has.
func TestRefreshesGoToTheIssuer(t *testing.T) {
	t.Parallel()
	a, evil := serve(t), serve(t)
	f := fleet()
	f.Issuer, f.ClientID, f.Secret = a.URL, "client", "secret"
	l := open(gatewaytest.StartRedis(t).Open(t).Logins(), 1, f)
	r := a.record(-time.Minute)
	r.TokenURL = evil.URL + "/token"
	put(t, l, r)
	wants(t, l, "access-1")
	if issued, denied := evil.counts(); issued+denied != 0 {
		t.Error("the refresh token was sent to another authorization server")
	}
}

// TestRefreshFailures: an error of the authorization server that another attempt may solve does not end the login. A
// token that is still valid is used. A refresh token is sent once, unless the response shows that it was not used.
func TestRefreshFailures(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		style oauth2.AuthStyle
		fails func(r *http.Request) (status int, code string)
		valid time.Duration
		want  string
		asks  int32
	}{
		"a wrong secret": {oauth2.AuthStyleInParams,
			func(*http.Request) (int, string) { return http.StatusUnauthorized, "invalid_client" },
			-time.Minute, "invalid_client", 1},
		"a valid token": {oauth2.AuthStyleInParams,
			func(*http.Request) (int, string) { return http.StatusServiceUnavailable, "" },
			20 * time.Second, "access-0", 1},
		"an unknown style, and no response": {oauth2.AuthStyleAutoDetect,
			func(*http.Request) (int, string) { return http.StatusBadGateway, "" }, -time.Minute, "502", 1},
		"an unknown style": {oauth2.AuthStyleAutoDetect, func(r *http.Request) (int, string) {
			if _, _, basic := r.BasicAuth(); basic {
				return http.StatusUnauthorized, "invalid_client"
			}
			return 0, ""
		}, -time.Minute, "access-1", 2},
		"a resource of another name": {oauth2.AuthStyleInParams, func(r *http.Request) (int, string) {
			if r.PostForm.Get("resource") != "" {
				return http.StatusBadRequest, "invalid_target"
			}
			r.PostForm.Set("resource", server)
			return 0, ""
		}, -time.Minute, "access-1", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, asks := serve(t), atomic.Int32{}
			a.fails = func(w http.ResponseWriter, r *http.Request) bool {
				asks.Add(1)
				status, code := of.fails(r)
				if status != 0 {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					_, _ = fmt.Fprintf(w, `{"error": %q}`, code)
				}
				return status != 0
			}
			l := open(gatewaytest.StartRedis(t).Open(t).Logins(), 1, fleet())
			r := a.record(of.valid)
			r.AuthStyle = of.style
			put(t, l, r)
			if got := token(l, oauth.Refusal{}); !strings.Contains(got, of.want) || asks.Load() != of.asks {
				t.Errorf("%s after %d requests", got, asks.Load())
			}
			if s := state(t, l); !s.Refreshable {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestLoginDuringRefresh: a login that an operator makes during a refresh is the one that counts.
func TestLoginDuringRefresh(t *testing.T) {
	t.Parallel()
	a, l := begin(t)
	put(t, l, a.record(-time.Minute))
	next := a.record(time.Hour)
	next.Access = "access-of-login"
	a.during = func() { check.Must(t, l.Put(context.Background(), "files", server, next)) }
	for range 2 {
		wants(t, l, "access-of-login")
	}
}

// TestFailedRefreshes: while the authorization server does not respond as it should, the login stays, and the error
// shows nothing of its response.
func TestFailedRefreshes(t *testing.T) {
	t.Parallel()
	a, l := begin(t)
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
