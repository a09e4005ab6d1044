package logins

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/capgate/capgate/gateway/upstream/oauth"
	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// Login is the login of one fleet. It is safe for concurrent use, and an oauth.Login.
type Login struct {
	logins *Logins
	of     Fleet
	bond   string

	mu      sync.Mutex
	unsaved *entry // a refreshed login that the store could not take
	resets  map[*func()]struct{}
}

var _ oauth.Login = (*Login)(nil)

// entry is the stored login of a fleet, with the last challenge of its server.
type entry struct {
	*Record   // nil means no login
	version   string
	challenge Challenge
}

// Challenge is what a server requires of the next login, as its responses say.
type Challenge struct {
	Required bool     `json:"required,omitempty"` // it has rejected a request without a token
	Metadata string   `json:"metadata,omitempty"` // URL of its metadata (RFC 9728); "" means the well-known one
	Scopes   []string `json:"scopes,omitempty"`   // of its last response 401
	More     []string `json:"more,omitempty"`     // that a token lacked since the last login
	// Rejected is the version of the login whose token the server did not accept, and RejectedAt when it last did not.
	Rejected   string    `json:"rejected,omitempty"`
	RejectedAt time.Time `json:"rejected_at,omitzero"`
}

// rejects reports whether the server has recently rejected a version of the login.
func (c *Challenge) rejects(version string, within time.Duration) bool {
	return version != "" && c.Rejected == version && time.Since(c.RejectedAt) < within
}

// NeededError is the error of a request that needs a login.
type NeededError struct{ Fleet, Why string }

// Error implements error.
func (e *NeededError) Error() string {
	return e.Why + "; an operator must run capgate fleets login " + e.Fleet
}

func (l *Login) needed(why string) error { return &NeededError{l.of.Name, why} }

const (
	// leaseTime is the time for which one replica refreshes a token. After a failure, it is a pause of all replicas.
	leaseTime = 20 * time.Second
	// exchangeTime is the timeout of a refresh. It does not end with the request that needs the token: the old tokens
	// may not be valid any more.
	exchangeTime = 15 * time.Second
	// minAge is the age at which a token that the server rejects is refreshed. A newer one needs a login.
	minAge = 30 * time.Second
	// writes is the number of attempts to store a refreshed token.
	writes = 5
)

// Token implements oauth.Login. It refreshes the stored token if it is the refused one, or ends soon.
func (l *Login) Token(ctx context.Context, by *http.Client, refused oauth.Refusal) (*oauth2.Token, error) {
	k, err := l.load(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	rejected := refused.Challenged && k.Record != nil && k.Access == refused.Token
	renews := k.Record != nil && k.Refresh != "" && (!rejected || now.Sub(k.Obtained) >= minAge)
	if refused.Challenged {
		l.note(ctx, k, refused, rejected && !renews)
	}
	switch {
	case k.Record == nil && !refused.Challenged:
		return nil, nil // the server may require none
	case rejected && refused.Forbidden:
		return nil, l.needed("the token lacks scopes that the server requires: " +
			strings.Join(scopesOf(refused.Scopes), " "))
	case k.usable(now) && !rejected && !(renews && k.due(now)):
		return k.token(), nil
	case !renews:
		return nil, l.needed(k.problem(now))
	}
	usable := k.usable(now) && !rejected
	token, err := l.refresh(ctx, by, k.version, !usable)
	if err != nil && usable { // a later request repeats it
		return k.token(), nil
	}
	return token, err
}

// problem returns why a login is needed.
func (k *entry) problem(now time.Time) string {
	switch {
	case k.Record == nil && !k.challenge.Required:
		return "no operator has logged in yet"
	case k.Record == nil:
		return "the server requires a login"
	case k.Refused != "":
		return "the authorization server has ended the login: " + k.Refused
	case !k.usable(now):
		return "the token of the login has expired"
	default:
		return "the server does not accept the token of the login"
	}
}

// load reads what is stored.
func (l *Login) load(ctx context.Context) (*entry, error) {
	keys := l.logins.Keys(ctx)
	if len(keys) == 0 {
		return nil, errNoSecret
	}
	s, err := l.logins.Store.Read(ctx, l.of.Name, l.bond)
	if err != nil {
		return nil, fmt.Errorf("the login cannot be read: %w", err)
	}
	k := &entry{version: s.Version}
	if r := new(Record); s.Version != "" && open(keys, l.bond, "login", s.Value, r) {
		k.Record = r
	}
	if len(s.Challenge) > 0 {
		open(keys, l.bond, "challenge", s.Challenge, &k.challenge)
	}
	return l.resave(ctx, k), nil
}

// resave stores a refreshed login that the store could not take before, and returns it. Otherwise it returns k.
func (l *Login) resave(ctx context.Context, k *entry) *entry {
	l.mu.Lock()
	kept := l.unsaved
	l.mu.Unlock()
	if kept == nil {
		return k
	}
	next, done := k, true
	if kept.follows(k) {
		next = &entry{Record: kept.Record, version: k.version, challenge: k.challenge}
		version, err := l.write(ctx, kept.Record, k.challenge, k.version, "")
		if done = err == nil; done {
			next.version = version
		}
	}
	if done {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.unsaved == kept {
			l.unsaved = nil
		}
	}
	return next
}

// follows reports whether an unsaved login is newer than a stored one: it is the refresh of that version, or another
// replica has used the same refresh token after it.
func (k *entry) follows(stored *entry) bool {
	return k.version == stored.version ||
		stored.Record != nil && stored.Refused != "" && stored.At.Equal(k.At)
}

// note stores what the server requires of the next login, if that is new. ended reports whether the login has no other
// token than the refused one.
func (l *Login) note(ctx context.Context, k *entry, r oauth.Refusal, ended bool) {
	c := k.challenge
	if again := c.rejects(k.version, time.Minute); ended && !r.Forbidden && !again {
		c.Rejected, c.RejectedAt = k.version, time.Now()
	}
	c.Required = c.Required || r.Token == ""
	if u, err := weburl.Parse(r.Metadata, ""); err == nil && l.has(u) && len(u.String()) <= MaxText {
		c.Metadata = u.String()
	}
	if r.Forbidden {
		c.More = scopesOf(c.More, r.Scopes)
	} else {
		c.Scopes = scopesOf(r.Scopes)
	}
	if reflect.DeepEqual(c, k.challenge) {
		return
	}
	k.challenge = c
	sealed, err := seal(l.logins.Keys(ctx), l.bond, "challenge", c)
	if err == nil {
		err = l.logins.Store.Challenge(ctx, l.of.Name, l.bond, sealed)
	}
	if err != nil {
		l.logins.Log.Warn("challenge of an MCP server not stored", "fleet", l.of.Name, "error", err)
	}
}

// has reports whether a URL is one of the server's host.
func (l *Login) has(u *url.URL) bool {
	server, err := url.Parse(l.of.URL)
	return err == nil && u.Scheme == server.Scheme && u.Host == server.Host
}

// refresh refreshes the token of a version of the login, unless another replica has. A refresh token may be usable once
// alone, so that one replica does it at a time. waits sets whether to wait for that replica.
func (l *Login) refresh(ctx context.Context, by *http.Client, version string, waits bool) (*oauth2.Token, error) {
	lease := rand.Text()
	wait := backoff.Backoff{First: 50 * time.Millisecond, Max: time.Second}
	for {
		held, err := l.logins.Store.Lease(ctx, l.of.Name, version, lease, leaseTime)
		changed := errors.Is(err, ErrChanged)
		switch {
		case err != nil && !changed:
			return nil, fmt.Errorf("the token cannot be refreshed: %w", err)
		case held || changed:
			k, err := l.load(ctx)
			if err != nil {
				return nil, err
			}
			if held && k.version == version {
				return l.exchange(ctx, by, k, lease)
			}
			return l.result(k)
		case !waits || !backoff.Sleep(ctx, backoff.Jitter(wait.Next(), 0.2)):
			return nil, errors.New("another replica is refreshing the token; retry the call")
		}
	}
}

// result returns the token of a login that was just read or written.
func (l *Login) result(k *entry) (*oauth2.Token, error) {
	if now := time.Now(); !k.usable(now) {
		return nil, l.needed(k.problem(now))
	}
	return k.token(), nil
}

// exchange exchanges the refresh token for new tokens, and stores them.
func (l *Login) exchange(ctx context.Context, by *http.Client, k *entry, lease string) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeTime)
	defer cancel()
	at, err := l.endpoint(ctx, by, k)
	if err != nil {
		return nil, err
	}
	token, err := l.request(ctx, by, k, at)
	var next *Record
	switch code := codeOf(err); {
	case err == nil:
		next, err = k.with(token, time.Now())
	case code == "invalid_grant": // no retry helps
		refused := *k.Record
		refused.Access, refused.Refresh, refused.Refused = "", "", code
		next, err = &refused, nil
		l.logins.Log.Warn("login of a fleet has ended", "fleet", l.of.Name, "error", code)
	}
	if err != nil {
		return nil, oauth.WhyNoToken(err)
	}
	if k, err = l.save(ctx, k, next, lease); err != nil {
		return nil, err
	}
	return l.result(k)
}

// endpoint returns the URL of a refresh: that of the login, or of the issuer in the configuration, whatever the login
// has.
func (l *Login) endpoint(ctx context.Context, by *http.Client, k *entry) (string, error) {
	if l.of.Issuer == "" {
		return k.TokenURL, nil
	}
	of, err := oauth.AuthorizationServer(ctx, by, l.of.Issuer)
	if err != nil {
		return "", fmt.Errorf("the authorization server: %w", err)
	}
	return of.TokenEndpoint, nil
}

// request requests tokens with the refresh token.
func (l *Login) request(ctx context.Context, by *http.Client, k *entry, at string) (*oauth2.Token, error) {
	c := clientcredentials.Config{ClientID: k.ClientID, ClientSecret: cmp.Or(l.of.Secret, k.ClientSecret),
		TokenURL: at, AuthStyle: k.AuthStyle, EndpointParams: url.Values{"grant_type": {"refresh_token"},
			"refresh_token": {k.Refresh}, "resource": {l.of.URL}}}
	other := oauth2.AuthStyleAutoDetect
	if c.AuthStyle == oauth2.AuthStyleAutoDetect { // x/oauth2 would repeat the request after any error
		c.AuthStyle = oauth2.AuthStyleInParams
		if c.ClientSecret != "" {
			c.AuthStyle, other = oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams
		}
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, by)
	token, err := c.Token(ctx)
	if codeOf(err) == "invalid_client" && other != oauth2.AuthStyleAutoDetect {
		c.AuthStyle = other
		token, err = c.Token(ctx)
	}
	if codeOf(err) == "invalid_target" { // the login may be for a URL above that of the server
		c.EndpointParams.Del("resource")
		token, err = c.Token(ctx)
	}
	return token, err
}

// codeOf returns the error code of an authorization server; "" means another error, or none.
func codeOf(err error) string {
	if failed := (*oauth2.RetrieveError)(nil); errors.As(err, &failed) {
		return failed.ErrorCode
	}
	return ""
}

// save stores a refreshed login. If the store does not respond, this replica keeps it: the refresh token in the store
// may not be valid any more.
func (l *Login) save(ctx context.Context, was *entry, next *Record, lease string) (*entry, error) {
	wait := backoff.Backoff{First: 100 * time.Millisecond, Max: time.Second}
	for attempt := 1; ; attempt++ {
		version, err := l.write(ctx, next, was.challenge, was.version, lease)
		switch {
		case err == nil:
			return &entry{next, version, was.challenge}, nil
		case errors.Is(err, ErrChanged):
			return l.load(ctx)
		case attempt < writes && backoff.Sleep(ctx, wait.Next()):
			continue
		}
		l.logins.Log.Error("refreshed token of a fleet not stored", "fleet", l.of.Name, "error", err)
		kept := &entry{next, was.version, was.challenge}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unsaved = kept
		return kept, nil
	}
}

// write stores a login, and returns its version.
func (l *Login) write(ctx context.Context, r *Record, c Challenge, was, lease string) (string, error) {
	keys := l.logins.Keys(ctx)
	s := Stored{Bond: l.bond, Version: rand.Text()}
	var err error
	if s.Value, err = seal(keys, l.bond, "login", r); err != nil {
		return "", err
	}
	if s.Challenge, err = seal(keys, l.bond, "challenge", c); err != nil {
		return "", err
	}
	return s.Version, l.logins.Store.Write(ctx, l.of.Name, s, was, lease)
}

// Follow calls reset after each change of the login by an operator, until stop is called. It must not block.
func (l *Login) Follow(reset func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resets[&reset] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.resets, &reset)
	}
}

func (l *Login) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for reset := range l.resets {
		(*reset)()
	}
}
