package logins_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/capgate/capgate/gateway/upstream/logins"
	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oauthtest"
)

const server = "https://mcp.example.com/mcp"

// fleet returns the fleet of the tests.
func fleet() logins.Fleet { return logins.Fleet{Name: "files", URL: server} }

// open returns the logins of a replica.
func open(s logins.Store, key byte, fleets ...logins.Fleet) *logins.Logins {
	l := logins.New(logins.Config{Store: s, Log: slog.New(slog.DiscardHandler),
		Keys: func(context.Context) [][]byte { return [][]byte{bytes.Repeat([]byte{key}, 32)} }})
	l.Set(fleets)
	return l
}

// refresher is an authorization server whose refresh tokens are valid once.
type refresher struct {
	oauthtest.Authority
	during func()                                        // called during each refresh; optional
	fails  func(http.ResponseWriter, *http.Request) bool // responds in place of the authority; optional

	mu      sync.Mutex
	current string // refresh token; "" means that the login has ended
	issued  int
	denied  int
}

// serve starts it, with a valid refresh token.
func serve(t *testing.T) *refresher {
	t.Helper()
	a := &refresher{current: "refresh-0"}
	a.Respond = a.refresh
	a.Start(t)
	return a
}

func (a *refresher) refresh(w http.ResponseWriter, r *http.Request) bool {
	if a.during != nil {
		a.during()
	}
	if a.fails != nil && a.fails(w, r) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	form := r.PostForm
	if a.current == "" || form.Get("refresh_token") != a.current || form.Get("grant_type") != "refresh_token" ||
		form.Get("resource") != server {
		a.denied++
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error": "invalid_grant", "error_description": "secret-description"}`)
		return true
	}
	a.issued++
	a.current = "refresh-" + strconv.Itoa(a.issued)
	_, _ = fmt.Fprintf(w,
		`{"access_token": "access-%d", "token_type": "Bearer", "refresh_token": %q, "expires_in": 3600}`,
		a.issued, a.current)
	return true
}

// counts returns the numbers of refreshes and of denied ones.
func (a *refresher) counts() (issued, denied int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.issued, a.denied
}

// end ends the login at the authorization server.
func (a *refresher) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = ""
}

// record returns a login of an hour ago, whose access token is valid for so long from now.
func (a *refresher) record(valid time.Duration) *logins.Record {
	now := time.Now()
	return &logins.Record{ClientID: "client", ClientSecret: "client-secret", TokenURL: a.URL + "/token",
		AuthStyle: oauth2.AuthStyleInParams, Access: "access-0", Refresh: "refresh-0", Obtained: now.Add(-time.Hour),
		Expiry: now.Add(valid),
		Scopes: []string{"read"}, By: "ann", At: now.Add(-time.Hour)}
}

// put stores a login.
func put(t *testing.T, l *logins.Logins, r *logins.Record) {
	t.Helper()
	check.Must(t, l.Put(t.Context(), "files", server, r))
}

// begin starts an authorization server, and a replica.
func begin(t *testing.T) (*refresher, *logins.Logins) {
	t.Helper()
	return serve(t), open(gatewaytest.StartRedis(t).Open(t).Logins(), 1, fleet())
}

// wants requires that a replica sends a token.
func wants(t *testing.T, l *logins.Logins, want string) {
	t.Helper()
	if got := token(l, oauth.Refusal{}); got != want {
		t.Error(got)
	}
}

// token returns the token that a replica sends, or the error.
func token(l *logins.Logins, refused oauth.Refusal) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*check.Patience)
	defer cancel()
	of, err := l.Of("files").Token(ctx, http.DefaultClient, refused)
	switch {
	case err != nil:
		return err.Error()
	case of == nil:
		return ""
	}
	return of.AccessToken
}

// state returns the state of the login.
func state(t *testing.T, l *logins.Logins) logins.State {
	t.Helper()
	s, err := l.State(t.Context(), "files")
	check.Must(t, err)
	return s
}

// TestTokensAreForOneServer: a login is used by each replica with its fleet, and with no other URL, issuer or client,
// and no other fleet. Without the secret of the replicas it cannot be read.
func TestTokensAreForOneServer(t *testing.T) {
	t.Parallel()
	redis := gatewaytest.StartRedis(t)
	store := func() logins.Store { return redis.Open(t).Logins() }
	a := serve(t)
	first := open(store(), 1, fleet())
	if got := token(first, oauth.Refusal{}); got != "" {
		t.Errorf("before the login: %q", got)
	}
	if err := first.Put(t.Context(), "files", server+"/other", a.record(time.Hour)); !errors.Is(err, logins.ErrURL) {
		t.Errorf("a login for another URL: %v", err)
	}
	if err := first.Put(t.Context(), "mail", server, a.record(time.Hour)); !errors.Is(err, logins.ErrUnknown) {
		t.Errorf("a login of an unknown fleet: %v", err)
	}
	put(t, first, a.record(time.Hour))
	if got := token(open(store(), 1, fleet()), oauth.Refusal{}); got != "access-0" {
		t.Errorf("another replica: %q", got)
	}
	if got := token(open(store(), 2, fleet()), oauth.Refusal{}); got != "" {
		t.Errorf("another secret: %q", got)
	}
	for name, change := range map[string]func(*logins.Fleet){
		"another URL": func(f *logins.Fleet) { f.URL = "https://other.example.com/mcp" },
		"an issuer":   func(f *logins.Fleet) { f.Issuer = "https://login.example.com" },
		"a client":    func(f *logins.Fleet) { f.ClientID = "other" },
	} {
		put(t, first, a.record(time.Hour))
		other := fleet()
		change(&other)
		if got := token(open(store(), 1, other), oauth.Refusal{}); got != "" {
			t.Errorf("%s: %q", name, got)
		}
		if got := token(first, oauth.Refusal{}); got != "access-0" { // a replica may have earlier settings
			t.Errorf("after a read with %s: %q", name, got)
		}
	}
	client := fleet()
	client.ClientID, client.Secret = "other", "secret"
	if err := open(store(), 1, client).Put(t.Context(), "files", server, a.record(time.Hour)); !errors.Is(err,
		logins.ErrClient) {
		t.Errorf("a login of another client: %v", err)
	}
	check.Must(t, first.Delete(t.Context(), "files"))
	if got := token(first, oauth.Refusal{}); got != "" {
		t.Errorf("after the logout: %q", got)
	}
	if err := first.Delete(t.Context(), "files"); !errors.Is(err, logins.ErrNone) {
		t.Errorf("a second logout: %v", err)
	}
}

// moved is a store that returns the login of another fleet.
type moved struct {
	logins.Store
	from string
}

func (m moved) Read(ctx context.Context, _, bond string) (logins.Stored, error) {
	return m.Store.Read(ctx, m.from, bond)
}

// kept is a store that keeps the last write, and in which writes fail while broken is set.
type kept struct {
	logins.Store
	mu     sync.Mutex
	last   logins.Stored
	broken bool
}

func (k *kept) Write(ctx context.Context, fleet string, s logins.Stored, was, lease string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken {
		return errors.New("broken")
	}
	k.last = s
	return k.Store.Write(ctx, fleet, s, was, lease)
}

func (k *kept) set(broken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = broken
}

// TestStoredLoginsAreSealed: what is stored shows no token, and is not accepted for another fleet.
func TestStoredLoginsAreSealed(t *testing.T) {
	t.Parallel()
	a := serve(t)
	k := &kept{Store: gatewaytest.StartRedis(t).Open(t).Logins()}
	put(t, open(k, 1, fleet()), a.record(time.Hour))
	stored := string(k.last.Value) + string(k.last.Challenge) + k.last.Bond + k.last.Version
	for _, secret := range []string{"access-0", "refresh-0", "client-secret", "ann"} {
		if strings.Contains(stored, secret) {
			t.Errorf("%q is stored in cleartext", secret)
		}
	}
	mail := logins.Fleet{Name: "mail", URL: server}
	forged := open(k.Store, 1, mail)
	check.Must(t, k.Store.Write(t.Context(), "mail", k.last, "", ""))
	if s, err := forged.State(t.Context(), "mail"); err != nil || s.Record != nil {
		t.Errorf("the login of another fleet: %+v, %v", s, err)
	}
	swapped := open(moved{k.Store, "files"}, 1, mail)
	if s, err := swapped.State(t.Context(), "mail"); err != nil || s.Record != nil {
		t.Errorf("the login of another fleet: %+v, %v", s, err)
	}
}

// TestReplicasRefreshOnce: of replicas that need a new token at once, one refreshes it, and all have the same one.
func TestReplicasRefreshOnce(t *testing.T) {
	t.Parallel()
	a := serve(t)
	redis := gatewaytest.StartRedis(t)
	const replicas = 6
	var all []*logins.Logins
	for range replicas {
		all = append(all, open(redis.Open(t).Logins(), 1, fleet()))
	}
	put(t, all[0], a.record(-time.Minute))
	for round := 1; round <= 2; round++ {
		refused := oauth.Refusal{}
		if round == 2 { // the server rejects the token before its end
			r := a.record(time.Hour)
			r.Access, r.Refresh = "access-1", "refresh-1"
			put(t, all[0], r)
			refused = oauth.Refusal{Challenged: true, Token: "access-1"}
		}
		tokens := make([]string, replicas)
		var wg sync.WaitGroup
		for i, l := range all {
			wg.Go(func() { tokens[i] = token(l, refused) })
		}
		wg.Wait()
		want := "access-" + strconv.Itoa(round)
		if slices.ContainsFunc(tokens, func(got string) bool { return got != want }) {
			t.Errorf("round %d: %q", round, tokens)
		}
		if issued, denied := a.counts(); issued != round || denied != 0 {
			t.Errorf("round %d: %d refreshes and %d denied ones", round, issued, denied)
		}
	}
}

// TestTokensAreRefreshedBeforeTheirEnd: a token that ends soon is refreshed, and used while that is not possible.
func TestTokensAreRefreshedBeforeTheirEnd(t *testing.T) {
	t.Parallel()
	a, l := begin(t)
	lasting := a.record(30 * time.Second)
	lasting.Refresh = ""
	put(t, l, lasting)
	if got := token(l, oauth.Refusal{}); got != "access-0" {
		t.Errorf("without a refresh token: %q", got)
	}
	put(t, l, a.record(30*time.Second))
	if got := token(l, oauth.Refusal{}); got != "access-1" {
		t.Errorf("30 seconds before the end: %q", got)
	}
	if got := token(l, oauth.Refusal{}); got != "access-1" {
		t.Errorf("an hour before the end: %q", got)
	}
}

// TestEndedLogins: when the authorization server ends a login, each replica says that another one is needed, without
// further requests. The next login is used at once.
func TestEndedLogins(t *testing.T) {
	t.Parallel()
	a := serve(t)
	redis := gatewaytest.StartRedis(t)
	one, two := open(redis.Open(t).Logins(), 1, fleet()), open(redis.Open(t).Logins(), 1, fleet())
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { two.Run(ctx) })
	check.Cleanup(t, func() {
		stop()
		running.Wait()
	})
	reset := make(chan struct{}, 100)
	leave := two.Of("files").Follow(func() { reset <- struct{}{} })
	defer leave()
	<-reset // the subscription has begun
	put(t, one, a.record(-time.Minute))
	<-reset
	a.end()
	for _, l := range []*logins.Logins{one, two, one} {
		if got := token(l, oauth.Refusal{}); !strings.Contains(got, "invalid_grant") ||
			!strings.Contains(got, "capgate fleets login files") || strings.Contains(got, "secret-description") {
			t.Error(got)
		}
		if s := state(t, l); s.State != logins.Needed || s.Refreshable || s.Record.By != "ann" {
			t.Errorf("%+v", s)
		}
	}
	if _, denied := a.counts(); denied != 1 {
		t.Errorf("%d requests with an ended login", denied)
	}
	for range len(reset) {
		<-reset
	}
	put(t, one, a.record(time.Hour))
	<-reset
	wants(t, two, "access-0")
}

// TestRejectedTokens: a rejected token that cannot be refreshed, or is new, needs a login. The state says so until the
// next one.
func TestRejectedTokens(t *testing.T) {
	t.Parallel()
	a, l := begin(t)
	lasting, fresh := a.record(time.Hour), a.record(time.Hour)
	lasting.Refresh, fresh.Obtained = "", time.Now()
	for name, r := range map[string]*logins.Record{"no refresh token": lasting, "new": fresh} {
		put(t, l, r)
		if s := state(t, l); s.State != logins.Active || s.Problem != "" {
			t.Errorf("%s: %+v", name, s)
		}
		for range 2 {
			got := token(l, oauth.Refusal{Challenged: true, Token: "access-0"})
			if !strings.Contains(got, "does not accept the token") {
				t.Errorf("%s: %s", name, got)
			}
		}
		if s := state(t, l); s.State != logins.Needed || s.Problem == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if issued, denied := a.counts(); issued+denied != 0 {
		t.Errorf("%d refreshes", issued+denied)
	}
	if got := token(l, oauth.Refusal{Challenged: true, Token: "older"}); got != "access-0" {
		t.Errorf("the server rejects a token before the login: %q", got)
	}
}
