package logins

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/weburl"
)

// Bounds of a login.
const (
	MaxText   = 16 << 10 // bytes of a token, a secret or a URL
	MaxScopes = 64
	maxScope  = 256 // bytes

	minLife   = 30 * time.Second // of a token, whatever its expiry says
	maxMargin = time.Minute      // before the expiry in which a token is refreshed while it is used
)

// Fleet is a fleet whose server requires a login.
type Fleet struct {
	Name     string
	URL      string   // of its server
	Issuer   string   // the only authorization server; "" means that the server names it
	ClientID string   // "" means that the login registers a client
	Secret   string   // of ClientID; "" means that of the login
	Scopes   []string // to request; empty means those that the server names
}

// bond returns a digest of what a login of the fleet is for.
func (f *Fleet) bond() string {
	text, _ := json.Marshal([]string{f.Name, f.URL, f.Issuer, f.ClientID})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Record is a login.
type Record struct {
	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"`
	TokenURL     string           `json:"token_url"`
	AuthStyle    oauth2.AuthStyle `json:"auth_style,omitempty"` // how the client authenticates at TokenURL
	Access       string           `json:"access,omitempty"`
	Refresh      string           `json:"refresh,omitempty"`
	Obtained     time.Time        `json:"obtained"`        // when the access token was issued
	Expiry       time.Time        `json:"expiry,omitzero"` // of the access token; zero means unknown
	Scopes       []string         `json:"scopes,omitempty"`
	By           string           `json:"by,omitempty"` // operator
	At           time.Time        `json:"at"`           // of the login
	// Refused is the error of the authorization server that has ended the login; then it has no tokens.
	Refused string `json:"refused,omitempty"`
}

// Check returns the first wrong field of a login from outside, as the admin API names it, and its problem; "" means
// none.
func (r *Record) Check() (field, problem string) {
	for _, of := range []struct {
		name, text string
		required   bool
	}{{"client_id", r.ClientID, true}, {"client_secret", r.ClientSecret, false}, {"access_token", r.Access, true},
		{"refresh_token", r.Refresh, false}} {
		if of.required && of.text == "" || len(of.text) > MaxText || strings.ContainsFunc(of.text, isHidden) {
			return of.name, "it must have visible ASCII characters alone, at most 16 KiB"
		}
	}
	u, err := weburl.ParseBare(r.TokenURL, "https://login.example.com/token")
	switch {
	case err != nil:
		return "token_url", "it " + err.Error()
	case weburl.IsCleartext(u) || len(r.TokenURL) > MaxText:
		return "token_url", "it must have https, unless it is loopback, and at most 16 KiB"
	case len(scopesOf(r.Scopes)) != len(r.Scopes):
		return "scopes", "there may be 64 different scopes of 256 visible ASCII characters"
	}
	return "", ""
}

// isHidden reports whether a token of HTTP cannot contain a character.
func isHidden(r rune) bool { return r <= ' ' || r > '~' }

// scopesOf returns the scopes in lists of them, each once. Wrong and further ones are left out.
func scopesOf(lists ...[]string) (all []string) {
	for _, scope := range slices.Concat(lists...) {
		wrong := scope == "" || len(scope) > maxScope || strings.ContainsFunc(scope, isHidden) ||
			strings.ContainsAny(scope, `"\`)
		if !wrong && len(all) < MaxScopes && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// usable reports whether the access token may be sent.
func (r *Record) usable(now time.Time) bool {
	return r != nil && r.Access != "" && (r.Expiry.IsZero() || now.Before(r.Expiry))
}

// due reports whether the token should be refreshed while it can still be used.
func (r *Record) due(now time.Time) bool {
	margin := min(maxMargin, r.Expiry.Sub(r.Obtained)/4)
	return r.Refresh != "" && !r.Expiry.IsZero() && now.After(r.Expiry.Add(-margin))
}

// token returns the access token.
func (r *Record) token() *oauth2.Token {
	return &oauth2.Token{AccessToken: r.Access, TokenType: "Bearer", Expiry: r.Expiry}
}

// with returns the login with the tokens of a refresh.
func (r *Record) with(t *oauth2.Token, now time.Time) (*Record, error) {
	next := *r
	next.Access, next.Refresh = t.AccessToken, cmp.Or(t.RefreshToken, r.Refresh)
	if next.Obtained, next.Expiry = now, t.Expiry; !t.Expiry.IsZero() {
		next.Expiry = Expiry(t.Expiry, now)
	}
	if scopes := ScopesOf(t); scopes != nil {
		next.Scopes = scopes
	}
	if !strings.EqualFold(t.Type(), "bearer") {
		return nil, errors.New("the authorization server returned a token that is no bearer token")
	}
	if field, problem := next.Check(); problem != "" {
		return nil, fmt.Errorf("%s: %s", field, problem)
	}
	return &next, nil
}

// Expiry returns the time until which a new token is used, half a minute at least.
func Expiry(t, now time.Time) time.Time {
	if least := now.Add(minLife); t.Before(least) {
		return least
	}
	return t
}

// ScopesOf returns the scopes of a token; nil if its authorization server has not named them.
func ScopesOf(t *oauth2.Token) []string {
	text, _ := t.Extra("scope").(string)
	return scopesOf(strings.Fields(text))
}

// seal encrypts a value of a fleet.
func seal(keys [][]byte, bond, what string, v any) ([]byte, error) {
	sealer, err := aead.New(keys)
	if err != nil || !sealer.On() {
		return nil, cmp.Or(err, errNoSecret)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return sealer.Seal([]byte(what+" "+bond), text), nil
}

// open decrypts a value of a fleet. It reports whether it could.
func open(keys [][]byte, bond, what string, sealed []byte, v any) bool {
	sealer, err := aead.New(keys)
	if err != nil {
		return false
	}
	text, err := sealer.Open([]byte(what+" "+bond), sealed)
	return err == nil && json.Unmarshal(text, v) == nil
}

var errNoSecret = errors.New("the secret that replicas share is not available")
