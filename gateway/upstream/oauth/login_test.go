package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

// logins has the token of a login, and notes what the server refused.
type logins struct {
	mu      sync.Mutex
	token   string
	err     error
	reads   int
	refused []oauth.Refusal
}

func (l *logins) Token(_ context.Context, _ *http.Client, r oauth.Refusal) (*oauth2.Token, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads++; r.Challenged {
		l.refused = append(l.refused, r)
	}
	switch {
	case l.err != nil:
		return nil, l.err
	case l.token == "" && !r.Challenged:
		return nil, nil
	case l.token == "" || l.token == r.Token:
		return nil, errors.New("a login is needed")
	}
	return &oauth2.Token{AccessToken: l.token, TokenType: "Bearer"}, nil
}

func (l *logins) set(token string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token, l.err = token, err
}

// loggedIn returns a transport with a login.
func (w *world) loggedIn(t *testing.T, l oauth.Login) *oauth.Transport {
	t.Helper()
	base := &http.Transport{}
	tr := oauth.New(oauth.Config{Settings: &oauth.Settings{Grant: oauth.AuthorizationCode}, Server: w.server,
		Base: base, Login: l})
	check.Cleanup(t, func() {
		tr.Close()
		base.CloseIdleConnections()
	})
	return tr
}

// TestLogins: the first request has the token of the login. Without a login, the server's challenge is noted, and a
// login is used at once. The authorization server gets no request of the gateway.
func TestLogins(t *testing.T) {
	t.Parallel()
	w := serve(t, &oauthtest.Authority{Challenge: `scope="read", resource_metadata="https://a.example"`})
	valid := w.Give("read")
	l := &logins{}
	tr := w.loggedIn(t, l)
	for range 2 {
		if _, err := w.post(t, tr); err == nil || !strings.Contains(err.Error(), "a login is needed") {
			t.Errorf("without a login: %v", err)
		}
	}
	if len(l.refused) != 1 || l.refused[0].Token != "" || l.refused[0].Metadata != "https://a.example" ||
		strings.Join(l.refused[0].Scopes, " ") != "read" {
		t.Errorf("%+v", l.refused)
	}
	l.set(valid, nil)
	tr.Reset()
	for range 2 {
		if status, err := w.post(t, tr); status != http.StatusOK || err != nil {
			t.Errorf("after the login: %d, %v", status, err)
		}
	}
	if l.reads != 3 || len(l.refused) != 1 || tr.Token() != valid {
		t.Errorf("%d reads, %+v", l.reads, l.refused)
	}
	next := w.Give("read")
	w.Withdraw(valid)
	l.set(next, nil)
	if status, err := w.post(t, tr); status != http.StatusOK || err != nil {
		t.Errorf("after the token was refused: %d, %v", status, err)
	}
	if n := len(w.Requests()); n != 0 {
		t.Errorf("%d requests for tokens", n)
	}
}

// slowLogin has a token, which is read until it is released.
type slowLogin struct {
	token        string
	read, answer chan struct{}
}

func (l *slowLogin) Token(context.Context, *http.Client, oauth.Refusal) (*oauth2.Token, error) {
	l.read <- struct{}{}
	<-l.answer
	return &oauth2.Token{AccessToken: l.token, TokenType: "Bearer"}, nil
}

// TestTokensOfFormerLogins: a token that arrives after a change of the login is sent by the request that waits for it,
// so it is in no text either.
func TestTokensOfFormerLogins(t *testing.T) {
	t.Parallel()
	w := serve(t, &oauthtest.Authority{})
	l := &slowLogin{token: w.Give(), read: make(chan struct{}), answer: make(chan struct{})}
	tr := w.loggedIn(t, l)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if status, err := w.post(t, tr); status != http.StatusOK || err != nil {
			t.Errorf("HTTP %d, %v", status, err)
		}
	})
	<-l.read
	tr.Reset()
	close(l.answer)
	waiting.Wait()
	if got := tr.Tokens(); tr.Token() != "" || len(got) != 1 || got[0] != l.token {
		t.Errorf("%q is in use, %q are in no text", tr.Token(), got)
	}
}

// TestLoginsThatCannotBeRead: no request is sent without the token that may be stored.
func TestLoginsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := serve(t, &oauthtest.Authority{})
	l := &logins{err: errors.New("the store is away")}
	tr := w.loggedIn(t, l)
	for range 2 {
		if _, err := w.post(t, tr); err == nil || !strings.Contains(err.Error(), "the store is away") {
			t.Error(err)
		}
	}
	if l.reads != 1 || len(l.refused) != 0 {
		t.Errorf("%d reads, %+v", l.reads, l.refused)
	}
}

// TestLackingScopes: a token that lacks scopes stays in use, and what it lacks is noted once.
func TestLackingScopes(t *testing.T) {
	t.Parallel()
	w := serve(t, &oauthtest.Authority{}, "read", "write")
	l := &logins{token: w.Give("read")}
	tr := w.loggedIn(t, l)
	for range 2 {
		if _, err := w.post(t, tr); err == nil {
			t.Error("a request without the scopes succeeded")
		}
	}
	if len(l.refused) != 1 || !l.refused[0].Forbidden || tr.Token() != l.token {
		t.Errorf("%+v", l.refused)
	}
}
