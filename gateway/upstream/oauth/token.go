package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	maxToken = 16 << 10 // bytes of an access token
	// minLife is the minimum time for which a token is used, unless the server rejects it.
	minLife = 10 * time.Second
	// settling is the age at which a token must be accepted so that another one is requested without a pause once the
	// server rejects it. Otherwise, a server that accepts each token once would cost a request for a token with each of
	// its own. It is shorter than the time until a token is renewed. If requests are rare, it is enough that the server
	// has accepted the token once, and rejects it after minLife and twice the last pause.
	settling = 5 * time.Second
	// maxEarly is the maximum time before the end of a token at which the next one is requested.
	maxEarly = time.Minute
)

// Login has the tokens of a server to which an operator has logged in.
type Login interface {
	// Token returns a token other than a refused one. It may refresh it with a client of the authorization server. It
	// returns nil if there is no login, and the server has not required one. Its error is for operators.
	Token(ctx context.Context, by *http.Client, r Refusal) (*oauth2.Token, error)
}

// Refusal is a response with which a server refuses a request. The zero value is none.
type Refusal struct {
	Challenged bool   // there is a response
	Token      string // of the request; "" means that it had none
	Forbidden  bool   // the token lacks scopes
	Scopes     []string
	Metadata   string // URL of the server's metadata; "" means that it is not named
}

// token is an access token.
type token struct {
	text           string
	obtained       time.Time
	renew, expires time.Time   // zero means that only the server says when
	accepted       atomic.Bool // the server has accepted it
	settled        atomic.Bool // the server has accepted it for settling
}

// wasAccepted is called when the server has accepted the token.
func (t *token) wasAccepted() {
	if t.settled.Load() {
		return
	}
	t.accepted.Store(true)
	if time.Since(t.obtained) >= settling {
		t.settled.Store(true)
	}
}

// value returns the text of a token; "" means none.
func (t *token) value() string {
	if t == nil {
		return ""
	}
	return t.text
}

// newToken checks a token.
func newToken(of *oauth2.Token, now time.Time) (*token, error) {
	switch {
	case !strings.EqualFold(of.Type(), "Bearer"):
		return nil, errors.New("the authorization server: the token is not a bearer token")
	case of.AccessToken == "", len(of.AccessToken) > maxToken, strings.ContainsAny(of.AccessToken, " \t"),
		!httpguts.ValidHeaderFieldValue(of.AccessToken):
		return nil, errors.New("the authorization server: the token is invalid")
	}
	t := &token{text: of.AccessToken, obtained: now}
	if !of.Expiry.IsZero() {
		life := max(of.Expiry.Sub(now), minLife)
		t.renew, t.expires = now.Add(life-min(life/5, maxEarly)), now.Add(life)
	}
	return t, nil
}

// clientCredentials is the Grant of the gateway itself (RFC 6749 §4.4).
func (t *Transport) clientCredentials(ctx context.Context, at *Endpoint) (*oauth2.Token, error) {
	of := clientcredentials.Config{ClientID: t.Settings.ClientID, ClientSecret: t.Credential.secret,
		TokenURL: at.TokenURL, Scopes: at.Scopes, AuthStyle: at.AuthStyle,
		EndpointParams: url.Values{"resource": {at.Resource}}}
	if t.Credential.key != "" {
		signed, err := t.Settings.assert(t.Credential.key, at.Issuer, time.Now())
		if err != nil {
			return nil, err
		}
		of.AuthStyle = oauth2.AuthStyleInParams
		of.EndpointParams.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		of.EndpointParams.Set("client_assertion", signed)
	}
	got, err := of.Token(context.WithValue(ctx, oauth2.HTTPClient, at.Client))
	if err != nil {
		return nil, WhyNoToken(err)
	}
	return got, nil
}

// WhyNoToken returns the error of a request for a token without the response, which could contain a secret.
func WhyNoToken(err error) error {
	refused := (*oauth2.RetrieveError)(nil)
	switch {
	case errors.As(err, &refused) && isScope(refused.ErrorCode) && len(refused.ErrorCode) <= maxCode:
		return fmt.Errorf("the authorization server refuses a token: %s", refused.ErrorCode)
	case errors.As(err, &refused) && refused.Response != nil:
		return fmt.Errorf("the authorization server refuses a token: HTTP %d", refused.Response.StatusCode)
	}
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return fmt.Errorf("the authorization server: %w", withoutURL(err))
	}
	return errors.New("the authorization server: its response is not a token")
}

// maxCode is the maximum length of an error code, in bytes.
const maxCode = 64

// Reset forgets the token, after a change of the login.
func (t *Transport) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.use(nil)
	t.flight, t.required, t.failed, t.next, t.read = nil, nil, nil, time.Time{}, false
	t.pause.Reset()
	t.resets++
}

// served reports whether the next token is requested without a pause, because the server has accepted the refused one
// for settling, or once, long ago. The caller must hold mu.
func (t *Transport) served(used *token) bool {
	if used == nil || used.settled.Load() {
		return used != nil
	}
	pause := t.next.Sub(used.obtained)
	return used.accepted.Load() && time.Since(used.obtained) >= max(minLife, 2*pause)
}

// use replaces the token in use. The caller must hold mu.
func (t *Transport) use(of *token) {
	if t.token.value() != of.value() {
		t.withhold(t.token)
	}
	t.token = of
}

// withhold adds a token to the former ones; nil means none. The caller must hold mu.
func (t *Transport) withhold(of *token) {
	if of != nil {
		t.former = append(t.former[max(len(t.former)-maxFormer+1, 0):], of.text)
	}
}

// maxFormer is the number of former tokens that a Transport remembers.
const maxFormer = 4

// Tokens returns the token in use and the former ones, which must be in no text.
func (t *Transport) Tokens() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.former)
	if t.token != nil {
		all = append(all, t.token.text)
	}
	return all
}
