package oauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/httpclient"
	"github.com/capgate/capgate/internal/lib/weburl"
)

const (
	// timeout is the timeout of all requests for one token.
	timeout = 15 * time.Second
	// firstPause and maxPause bound the time between two requests for a token, while the server accepts none.
	firstPause, maxPause = time.Second, 2 * time.Minute
	maxRefusal           = 64 << 10 // bytes of a refusal that are read so that its connection is reused
)

// Error explains why there is no access token that the server accepts. Its text is for operators.
type Error struct{ err error }

// Error implements error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Config configures a Transport.
type Config struct {
	Settings   *Settings
	Credential Credential
	Server     string            // URL
	Host       string            // of requests to the server; "": that of the URL
	Base       http.RoundTripper // sends requests to the server
	// Login has the tokens with grant: authorization_code; nil means that no operator can log in.
	Login Login
}

// Transport sends requests to one server with an access token. When the server requires a token, or another one, it
// requests one for all waiting requests, and sends each of them again: a server does not process a request that
// it responds to with 401, or with 403 and insufficient_scope. It is safe for concurrent use.
type Transport struct {
	Config
	url, resource *url.URL        // of requests; with the server's own host
	client        *http.Client    // of the authorization server
	flights       context.Context //nolint:containedctx // ends when the Transport is closed
	cancel        context.CancelFunc
	running       sync.WaitGroup // flights; added to with mu held, and before closed

	mu       sync.Mutex
	closed   bool
	token    *token   // nil means none
	former   []string // the last tokens before it
	flight   *flight  // in progress; nil means none
	required []string // scopes that the server's challenges have named
	failed   error    // of the last flight
	pause    backoff.Backoff
	next     time.Time // no flight begins before, but one with more scopes
	read     bool      // a flight has read the login since the last Reset
	resets   int
}

// flight is a request for a token.
type flight struct {
	done  chan struct{} // closed when the others are set
	token *token
	err   error
}

// New returns a Transport. The caller must close it.
func New(c Config) *Transport {
	at, err := url.Parse(c.Server)
	if err != nil {
		at = &url.URL{} // no request can be made to it
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Credential.authorities != "" {
		secure.RootCAs = x509.NewCertPool()
		secure.RootCAs.AppendCertsFromPEM([]byte(c.Credential.authorities))
	}
	t := &Transport{Config: c, url: at, client: httpclient.New(httpclient.Config{Name: "capgate-oauth", TLS: secure}),
		pause: backoff.Backoff{First: firstPause, Max: maxPause}}
	own := *at
	if c.Host != "" {
		own.Host = c.Host
	}
	t.resource = &own
	t.flights, t.cancel = context.WithCancel(context.Background())
	return t
}

// RoundTrip implements http.RoundTripper. It returns an Error if there is no token that the server accepts.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	with, err := t.current(r.Context())
	if err != nil {
		closeBody(r)
		return nil, err
	}
	for again := 0; ; again++ {
		resp, err := t.send(r, with)
		if err != nil {
			return nil, err
		}
		c, refused := challengeOf(resp)
		if !refused || r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
			return resp, nil
		}
		discard(resp)
		if again == 1 && !c.forbidden || again == 2 { // a new token may lack scopes
			return nil, c.error()
		}
		if with, err = t.replace(r.Context(), with, c); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// send sends a request with a token; nil means without.
func (t *Transport) send(r *http.Request, with *token) (*http.Response, error) {
	if with != nil {
		out := *r
		out.Header = r.Header.Clone()
		out.Header.Set("Authorization", "Bearer "+with.text)
		r = &out
	}
	resp, err := t.Base.RoundTrip(r)
	if err == nil && with != nil && resp.StatusCode != http.StatusUnauthorized {
		with.wasAccepted()
	}
	return resp, err
}

// current returns the token for a request; nil means none. A token that ends soon is renewed in the background.
func (t *Transport) current(ctx context.Context) (*token, error) {
	t.mu.Lock()
	now, of := time.Now(), t.token
	switch {
	case of == nil && t.failed != nil && now.Before(t.next):
		defer t.mu.Unlock()
		return nil, t.failed
	case of == nil && t.Login != nil && !t.read:
		f := t.flight
		if f == nil {
			f = t.begin(Refusal{})
		}
		t.mu.Unlock()
		return f.wait(ctx)
	case of == nil || of.renew.IsZero() || now.Before(of.renew):
		defer t.mu.Unlock()
		return of, nil
	}
	f := t.flight
	if f == nil && !now.Before(t.next) {
		if of.accepted.Load() {
			t.pause.Reset()
		}
		f = t.begin(Refusal{})
	}
	t.mu.Unlock()
	if f == nil || now.Before(of.expires) {
		return of, nil
	}
	return f.wait(ctx)
}

// replace returns another token than the one that the server has refused.
func (t *Transport) replace(ctx context.Context, used *token, c challenge) (*token, error) {
	t.mu.Lock()
	if t.token != nil && t.token != used { // another request has replaced it
		defer t.mu.Unlock()
		return t.token, nil
	}
	more := t.require(c.scopes)
	f := t.flight
	switch {
	case f != nil:
	case c.forbidden && !more:
		defer t.mu.Unlock()
		return nil, c.error()
	case !c.forbidden && time.Now().Before(t.next):
		defer t.mu.Unlock()
		if t.failed != nil {
			return nil, t.failed
		}
		return nil, c.error()
	default:
		if t.served(used) {
			t.pause.Reset()
		}
		f = t.begin(Refusal{Token: used.value(), Challenged: true, Forbidden: c.forbidden, Scopes: c.scopes,
			Metadata: c.metadata})
	}
	t.mu.Unlock()
	return f.wait(ctx)
}

// wait waits for the token.
func (f *flight) wait(ctx context.Context) (*token, error) {
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin requests a token. The caller must hold mu.
func (t *Transport) begin(r Refusal) *flight {
	f := &flight{done: make(chan struct{})}
	t.flight = f
	reads := t.Login != nil && !t.read // it makes no request, unless the stored token has ended
	if !reads {
		t.postpone()
	}
	if t.closed {
		f.err, t.flight = context.Canceled, nil
		close(f.done)
		return f
	}
	resets := t.resets
	t.running.Go(func() {
		ctx, cancel := context.WithTimeout(t.flights, timeout)
		defer cancel()
		of, err := t.request(ctx, r)
		if err != nil {
			err = &Error{err}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		f.token, f.err = of, err
		if t.flight == f {
			t.flight = nil
		}
		switch {
		case t.resets != resets: // waiting requests send it
			t.withhold(of)
		case err == nil:
			t.use(of)
			t.failed, t.read = nil, true
		default:
			if t.failed = err; reads {
				t.postpone()
			}
		}
		close(f.done)
	})
	return f
}

// postpone sets the time before which no flight begins. The caller must hold mu.
func (t *Transport) postpone() { t.next = time.Now().Add(backoff.Jitter(t.pause.Next(), 0.1)) }

// request requests a token. It returns nil if there is no login yet, and the server has not required one.
func (t *Transport) request(ctx context.Context, r Refusal) (*token, error) {
	if weburl.IsCleartext(t.url) {
		return nil, errors.New("the backend's URL is cleartext HTTP, and a token is sent over https alone; only a " +
			"loopback address may have http")
	}
	defer t.client.CloseIdleConnections() // the next request is minutes later
	got, err := t.grant(ctx, r)
	if got == nil || err != nil {
		return nil, err
	}
	return newToken(got, time.Now())
}

// grant requests a token by the grant of the settings.
func (t *Transport) grant(ctx context.Context, r Refusal) (*oauth2.Token, error) {
	switch {
	case t.Settings.Grant == ClientCredentials:
		at, err := t.discover(ctx, r.Metadata)
		if err != nil {
			return nil, err
		}
		return t.clientCredentials(ctx, at)
	case t.Login == nil:
		return nil, errors.New("no operator can log in to the server")
	default:
		return t.Login.Token(ctx, t.client, r)
	}
}

// require adds the scopes of a challenge to those that tokens are requested for, and reports whether it has added any.
// Those of the settings are all that are ever requested. The caller must hold mu.
func (t *Transport) require(scopes []string) (more bool) {
	for _, scope := range scopes {
		if t.Settings.Scopes == nil && len(t.required) < maxScopes && isScope(scope) &&
			!slices.Contains(t.required, scope) {
			t.required, more = append(t.required, scope), true
		}
	}
	return more
}

// scopes returns the scopes to request: those of the settings, or of challenges, or else those that the server's
// metadata names.
func (t *Transport) scopes(supported []string) []string {
	if t.Settings.Scopes != nil {
		return t.Settings.Scopes
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.required != nil {
		return slices.Clone(t.required)
	}
	supported = slices.DeleteFunc(supported, func(scope string) bool { return !isScope(scope) })
	return supported[:min(len(supported), maxScopes)]
}

// challenge is the part of a response with which a server refuses a token.
type challenge struct {
	forbidden bool // the token lacks scopes
	scopes    []string
	metadata  string // URL of the server's metadata; "": not named
}

// challengeOf returns the challenge of a response, and whether it is a refusal.
func challengeOf(resp *http.Response) (c challenge, refused bool) {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return c, false
	}
	c.forbidden = resp.StatusCode == http.StatusForbidden
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return c, !c.forbidden
	}
	insufficient := false
	for _, of := range all {
		if of.Scheme != "bearer" {
			continue
		}
		insufficient = insufficient || of.Params["error"] == "insufficient_scope"
		c.scopes = append(c.scopes, strings.Fields(of.Params["scope"])...)
		if c.metadata == "" {
			c.metadata = of.Params["resource_metadata"]
		}
	}
	return c, !c.forbidden || insufficient
}

// error returns the error of a request that the server has refused with the newest token.
func (c challenge) error() *Error {
	if !c.forbidden {
		return &Error{errors.New("the server rejects the token of the authorization server")}
	}
	named := slices.DeleteFunc(c.scopes, func(scope string) bool { return !isScope(scope) })
	named = named[:min(len(named), maxNamed)]
	return &Error{fmt.Errorf("the server requires scopes that the token lacks: %s", strings.Join(named, " "))}
}

// maxNamed is the maximum number of scopes in an error.
const maxNamed = 4

// Close ends requests for tokens, and waits for their end. No request may be running.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}

func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal)
	_ = resp.Body.Close()
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
