package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

// inMemory is a world without sockets, for the clock of a bubble.
func inMemory(t *testing.T, a *oauthtest.Authority) (*world, *oauth.Transport) {
	t.Helper()
	a.URL, a.Resource = "https://login.example.com", "https://mcp.example.com/mcp"
	w := &world{Authority: a, server: a.Resource, bodies: make(chan string, 10_000)}
	protected := a.Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.requests.Add(1)
		w.bodies <- string(body)
	}))
	reach := roundTripper(func(r *http.Request) (*http.Response, error) {
		to, in := http.Handler(a), r.Clone(r.Context())
		if r.URL.Host == "mcp.example.com" {
			to = protected
		}
		if in.Body == nil {
			in.Body = http.NoBody
		}
		out := httptest.NewRecorder()
		to.ServeHTTP(out, in)
		return out.Result(), r.Context().Err()
	})
	s := settings(t, a)
	credential, err := s.Read(files{})
	check.Must(t, err)
	tr := oauth.New(oauth.Config{Settings: s, Credential: credential, Server: w.server, Base: reach})
	tr.Reach(reach)
	return w, tr
}

// after lets time pass.
func after(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // of the bubble's clock

// TestTokensAreRenewedInTime: the next token is there before the former one ends, and no request waits for it.
func TestTokensAreRenewedInTime(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var slow atomic.Bool
		w, tr := inMemory(t, &oauthtest.Authority{Expires: 100, Respond: func(http.ResponseWriter, *http.Request) bool {
			if slow.Load() {
				after(5 * time.Second)
			}
			return false
		}})
		defer tr.Close()
		for _, c := range []struct {
			passed   time.Duration
			token    string
			requests int // for tokens, when it has waited for the last one
			waits    time.Duration
		}{{0, "access-token-1", 1, 0}, {79 * time.Second, "access-token-1", 1, 0},
			{2 * time.Second, "access-token-1", 2, 0}, {10 * time.Second, "access-token-2", 2, 0},
			{time.Hour, "access-token-3", 3, 5 * time.Second}} {
			after(c.passed)
			began := time.Now()
			w.wants(t, tr)
			token, waited := tr.Token(), time.Since(began)
			after(time.Millisecond)
			if n := len(w.Requests()); token != c.token || n != c.requests || waited != c.waits {
				t.Errorf("after %v: %s, %d requests for a token, waited %v", c.passed, token, n, waited)
			}
			slow.Store(true)
		}
	})
}

// TestRevokedTokenIsReplaced: a request that a server refuses because its token was revoked gets another one at once.
func TestRevokedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w, tr := inMemory(t, &oauthtest.Authority{})
		defer tr.Close()
		for range 20 {
			w.wants(t, tr)
			after(5 * time.Second)
			w.wants(t, tr)
			w.Revoke()
		}
		if n := len(w.Requests()); n != 20 {
			t.Errorf("%d requests for a token", n)
		}
	})
}

// TestTokensForOneRequest: a server that accepts each token once costs few requests for tokens. Short-lived tokens are
// requested for each of several rare requests.
func TestTokensForOneRequest(t *testing.T) {
	t.Parallel()
	for every, most := range map[time.Duration]int{time.Second: 45, 3 * time.Second: 45, 10 * time.Second: 360} {
		check.Bubble(t, func(t *testing.T) {
			w, tr := inMemory(t, &oauthtest.Authority{})
			defer tr.Close()
			accepted := 0
			for range time.Hour / every {
				if _, err := w.post(t, tr); err == nil {
					accepted++
					w.Revoke()
				} else if !strings.Contains(err.Error(), "the server rejects the token") {
					t.Fatal(err)
				}
				after(every)
			}
			if n := len(w.Requests()); n != accepted || n < 10 || n > most {
				t.Errorf("every %v: %d requests for a token in an hour, %d requests accepted", every, n, accepted)
			}
		})
	}
	check.Bubble(t, func(t *testing.T) {
		w, tr := inMemory(t, &oauthtest.Authority{Expires: 30})
		defer tr.Close()
		for range 20 {
			w.wants(t, tr)
			w.Revoke()
			after(31 * time.Second)
		}
		if n := len(w.Requests()); n != 20 {
			t.Errorf("%d requests for short-lived tokens", n)
		}
	})
}

// TestForgottenTokens: a server of rare requests that forgets a token each time gets another one at once, and so does
// one that forgets that soon after.
func TestForgottenTokens(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w, tr := inMemory(t, &oauthtest.Authority{})
		defer tr.Close()
		for range 20 {
			w.wants(t, tr)
			w.Revoke()
			after(time.Hour)
		}
		w.wants(t, tr)
		w.Revoke()
		after(2 * time.Second)
		w.wants(t, tr)
	})
}

// TestAbsurdLifetimes: whatever lifetime a token has, one is requested at most every few seconds.
func TestAbsurdLifetimes(t *testing.T) {
	t.Parallel()
	for name, expires := range map[string]any{"none": nil, "zero": 0, "a second": 1, "past": -5, "text": "30",
		"ages": 1e18} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				w, tr := inMemory(t, &oauthtest.Authority{Expires: expires})
				defer tr.Close()
				for range 600 {
					w.wants(t, tr)
					after(100 * time.Millisecond)
				}
				if n := len(w.Requests()); n > 8 {
					t.Errorf("%d requests for a token in a minute", n)
				}
			})
		})
	}
}

// TestFailuresAreSpaced: an authorization server that refuses the client, and one whose tokens the server rejects, get
// few requests, and a token once they would be accepted.
func TestFailuresAreSpaced(t *testing.T) {
	t.Parallel()
	for name, issue := range map[string]func(*oauthtest.Authority, http.ResponseWriter){
		"refused": func(_ *oauthtest.Authority, w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"rejected": func(a *oauthtest.Authority, w http.ResponseWriter) {
			a.Issue(w, nil)
			a.Revoke()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, every := range []time.Duration{time.Second, 10 * time.Second} {
				check.Bubble(t, func(t *testing.T) { spaced(t, every, issue) })
			}
		})
	}
}

// spaced sends requests for an hour that get no valid token, and one that gets one.
func spaced(t *testing.T, every time.Duration, issue func(*oauthtest.Authority, http.ResponseWriter)) {
	t.Helper()
	a, works := &oauthtest.Authority{}, false
	a.Respond = func(w http.ResponseWriter, _ *http.Request) bool {
		if !works {
			issue(a, w)
		}
		return !works
	}
	w, tr := inMemory(t, a)
	defer tr.Close()
	for range time.Hour / every {
		if _, err := w.post(t, tr); err == nil {
			t.Fatal("accepted")
		}
		after(every)
	}
	if n := len(a.Requests()); n < 10 || n > 45 {
		t.Errorf("%d requests for a token in an hour", n)
	}
	works = true
	after(3 * time.Minute)
	w.wants(t, tr)
}

// TestSlowAuthorizationServer: requests wait for a token for a limited time, and no longer than they want to.
func TestSlowAuthorizationServer(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w, tr := inMemory(t, &oauthtest.Authority{Respond: func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}})
		began := time.Now()
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				_, err := w.post(t, tr)
				if failed := (*oauth.Error)(nil); !errors.As(err, &failed) || time.Since(began) != 15*time.Second ||
					!strings.Contains(err.Error(), "it does not respond in time") {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server, nil)
		check.Must(t, err)
		if _, err = tr.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		waiting.Wait()
		if n := len(w.Requests()); n != 1 {
			t.Errorf("%d requests for a token", n)
		}
		after(time.Minute)
		began = time.Now()
		waiting.Go(func() { _, _ = w.post(t, tr) })
		after(time.Second)
		tr.Close()
		waiting.Wait()
		if passed := time.Since(began); passed != time.Second || len(w.Requests()) != 2 {
			t.Errorf("%v, %d requests for a token", passed, len(w.Requests()))
		}
		if _, err = w.post(t, tr); err == nil || len(w.Requests()) != 2 {
			t.Errorf("closed: %v, %d requests for a token", err, len(w.Requests()))
		}
	})
}

// TestCleartextServersGetNoToken: a token is sent over https, or to this machine.
func TestCleartextServersGetNoToken(t *testing.T) {
	t.Parallel()
	a := &oauthtest.Authority{URL: "https://login.example.com"}
	var asked atomic.Int32
	tr := oauth.New(oauth.Config{Settings: settings(t, a), Server: "http://mcp.example.com/mcp",
		Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: r}, nil
		})})
	defer tr.Close()
	w := &world{Authority: a, server: "http://mcp.example.com/mcp"}
	if _, err := w.post(t, tr); err == nil || !strings.Contains(err.Error(), "over https alone") || asked.Load() != 1 {
		t.Errorf("%v, %d requests", err, asked.Load())
	}
}

// TestServerAtAnAddress: the tokens for a server whose URL has an address in place of its name are for that name.
func TestServerAtAnAddress(t *testing.T) {
	t.Parallel()
	const name = "mcp.example.com:8443"
	var host atomic.Pointer[string]
	w := serve(t, &oauthtest.Authority{})
	at, err := url.Parse(w.server)
	check.Must(t, err)
	w.Resource = "http://" + name + at.Path
	s := settings(t, w.Authority)
	credential, err := s.Read(files{})
	check.Must(t, err)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	tr := oauth.New(oauth.Config{Settings: s, Credential: credential, Server: w.server, Host: name,
		Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				host.Store(&r.Host)
			}
			return base.RoundTrip(r)
		})})
	defer tr.Close()
	w.wants(t, tr)
	if got := w.Requests()[0].Get("resource"); got != w.Resource || *host.Load() != name {
		t.Errorf("a token for %q, metadata of %q", got, *host.Load())
	}
}
