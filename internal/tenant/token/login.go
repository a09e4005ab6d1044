package token

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Client is this gateway as a client of an issuer, at which people sign in by the authorization code flow with PKCE
// (OpenID Connect Core §3.1, RFC 7636).
type Client struct {
	// Name of the issuer in issuers.
	Issuer string `yaml:"issuer" kind:"name" required:"" unique:"sign_in"`
	// ID of this gateway as a client of the issuer.
	ID string `yaml:"client_id" required:"" max:"512"`
	// File with the secret of the client. Default none: a public client.
	SecretFile string `yaml:"client_secret_file" kind:"file"`
	// Scopes of the request to the issuer.
	Scopes []string `yaml:"scopes" default:"[openid, profile, email]"`

	Secret string `yaml:"-"` // "": a public client
}

// Login is a started sign-in. Its secrets belong to the browser.
type Login struct {
	Redirect string // URL to which the issuer sends the browser back
	State    string
	Nonce    string
	Verifier string // of PKCE
}

// Answer is the answer of the issuer, with which the browser returns.
type Answer struct {
	Code   string
	Issuer string // the parameter iss (RFC 9207); "": none
}

// endpoints are those of an issuer for sign-ins.
type endpoints struct {
	oauth2.Endpoint
	namesItself bool // its answers have the parameter iss
	until       time.Time
}

// endpointsFresh is the time for which discovered endpoints are used.
const endpointsFresh = 5 * time.Minute

// Authorize returns the URL at the issuer to which a browser is sent.
func (v *Verifier) Authorize(ctx context.Context, c Client, l Login) (string, error) {
	by, err := v.issuerOf(c)
	if err != nil {
		return "", err
	}
	config, err := by.loginOf(ctx, c, l, v.options.Now())
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)), nil
}

// Exchange returns the person of a sign-in: the issuer's token for the code is verified, and must be for this client
// and this sign-in. Tenant of the identity may be "", and Settings is nil. The error is for the log; it has nothing of
// the issuer's answers.
func (v *Verifier) Exchange(ctx context.Context, c Client, l Login, a Answer) (identity tenant.Identity, err error) {
	by, err := v.issuerOf(c)
	if err != nil {
		return identity, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*by.source.settings.Timeout)
	defer cancel()
	config, err := by.loginOf(ctx, c, l, v.options.Now())
	if err != nil {
		return identity, err
	}
	if a.Issuer != "" && a.Issuer != by.URL || a.Issuer == "" && by.login.Load().namesItself {
		return identity, errors.New("the answer comes from another issuer: its parameter iss is missing or different")
	}
	got, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, by.source.fetcher.client), a.Code,
		oauth2.VerifierOption(l.Verifier))
	by.source.fetcher.client.CloseIdleConnections()
	if err != nil {
		return identity, fmt.Errorf("the token endpoint: %s", whyNoToken(err))
	}
	raw, _ := got.Extra("id_token").(string)
	return v.identify(ctx, by, c, l, raw)
}

// whyNoToken returns the text of a failure without the answer.
func whyNoToken(err error) string {
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) {
		return "it has refused the code"
	}
	return why(err)
}

// identify verifies an ID token (OpenID Connect Core §3.1.3.7).
func (v *Verifier) identify(ctx context.Context, by *issuer, c Client, l Login, raw string) (identity tenant.Identity,
	err error) {
	said, err := parse(raw)
	if err != nil {
		return identity, fmt.Errorf("the ID token: %w", err)
	}
	if said.issuer != by.URL || !slices.Contains(by.Algorithms, said.alg) {
		return identity, errors.New("the ID token: iss or alg is not its issuer's")
	}
	keys, err := by.keysFor(ctx, &said)
	if err != nil {
		return identity, fmt.Errorf("the ID token: %w", err)
	}
	claims, _, err := by.signed(ctx, raw, keys, said.alg)
	if err == nil {
		err = by.checkID(claims, c.ID, l.Nonce, v.options.Now())
	}
	if err != nil {
		return identity, fmt.Errorf("the ID token: %w", err)
	}
	return by.loginIdentity(claims)
}

// checkID checks that an ID token is valid, for a client, and for a sign-in.
func (i *issuer) checkID(claims object, client, nonce string, now time.Time) error {
	audiences, err := claims.texts("aud")
	if err != nil || !slices.Contains(audiences, client) {
		return errors.New("aud is not this client")
	}
	if _, has := claims["azp"]; has || len(audiences) > 1 {
		if azp, err := claims.text("azp"); err != nil || azp != client {
			return errors.New("azp is not this client")
		}
	}
	got, _ := claims.text("nonce")
	if nonce == "" || subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1 {
		return errors.New("nonce is that of another sign-in")
	}
	if err = i.checkRequired(claims); err != nil {
		return err
	}
	if err = i.checkEmail(claims); err != nil {
		return err
	}
	_, err = i.checkTimes(claims, now, 0)
	return err
}

// checkEmail checks that an e-mail address that names the user is not one that the issuer has not verified.
func (i *issuer) checkEmail(claims object) error {
	if v, has := claims["email_verified"]; has && i.Claims.User == "email" && v != true && v != "true" {
		return errors.New("the issuer has not verified the e-mail address, which is claims.user")
	}
	return nil
}

// loginIdentity returns the identity in the claims of an ID token, which may lack a tenant: an operator needs none.
func (i *issuer) loginIdentity(claims object) (tenant.Identity, error) {
	identity := tenant.Identity{Tenant: i.Tenant, Key: i.Name, Scopes: i.Scopes}
	if _, has := claims.at(i.Claims.Tenant); has && i.Claims.Tenant != "" {
		var err error
		if identity.Tenant, err = claims.text(i.Claims.Tenant); err != nil || !call.IsZone(identity.Tenant) {
			return identity, errors.New("the tenant is not a valid id")
		}
	}
	var err error
	if identity.User, err = claims.name(i.Claims.User); err != nil {
		return identity, err
	}
	identity.Person = i.person(claims)
	if i.Claims.Scopes != "" {
		identity.Scopes, err = i.scopes(claims)
	}
	return identity, err
}

// issuerOf returns the issuer of a client.
func (v *Verifier) issuerOf(c Client) (*issuer, error) {
	for _, i := range *v.table.Load() {
		if i.Name == c.Issuer {
			return i, nil
		}
	}
	return nil, errors.New("the issuer is not configured")
}

// loginOf returns the configuration of a client for a sign-in.
func (i *issuer) loginOf(ctx context.Context, c Client, l Login, now time.Time) (*oauth2.Config, error) {
	at, err := i.endpoints(ctx, now)
	if err != nil {
		return nil, err
	}
	of := at.Endpoint
	if c.Secret == "" {
		of.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{ClientID: c.ID, ClientSecret: c.Secret, Endpoint: of, RedirectURL: l.Redirect,
		Scopes: c.Scopes}, nil
}

// endpoints returns the endpoints of an issuer by its discovery (OpenID Connect Discovery §4).
func (i *issuer) endpoints(ctx context.Context, now time.Time) (*endpoints, error) {
	if known := i.login.Load(); known != nil && now.Before(known.until) {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, i.source.settings.Timeout)
	defer cancel()
	client := i.source.fetcher.client
	defer client.CloseIdleConnections()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), i.URL)
	if err != nil {
		return nil, fmt.Errorf("discovery: %s", why(err))
	}
	var said struct {
		Methods     []string `json:"token_endpoint_auth_methods_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err = provider.Claims(&said); err != nil {
		return nil, errors.New("discovery: the document is invalid")
	}
	at := &endpoints{Endpoint: provider.Endpoint(), namesItself: said.NamesItself, until: now.Add(endpointsFresh)}
	at.AuthStyle = oauth2.AuthStyleInHeader
	if len(said.Methods) > 0 && !slices.Contains(said.Methods, "client_secret_basic") {
		at.AuthStyle = oauth2.AuthStyleInParams
	}
	for name, url := range map[string]string{"authorization_endpoint": at.AuthURL, "token_endpoint": at.TokenURL} {
		if err = CheckURL(url, i.Insecure); err != nil {
			return nil, fmt.Errorf("discovery: %s %w", name, err)
		}
	}
	i.login.Store(at)
	return at, nil
}

// NewLogin returns a sign-in with new secrets.
func NewLogin(redirect, state, nonce string) Login {
	return Login{Redirect: redirect, State: state, Nonce: nonce, Verifier: oauth2.GenerateVerifier()}
}
