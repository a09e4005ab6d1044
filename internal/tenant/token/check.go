package token

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

var errExpired = errors.New("it has expired")

// check returns the identity and the end of a token with a valid signature.
func (i *issuer) check(said *unverified, claims object, now time.Time) (identity tenant.Identity, expires time.Time,
	err error) {
	if expires, err = i.checkToken(said, claims, now); err != nil {
		return identity, expires, err
	}
	identity, err = i.identity(claims)
	return identity, expires, err
}

// checkToken checks the claims of an access token other than those of its identity, and returns its end.
func (i *issuer) checkToken(said *unverified, claims object, now time.Time) (expires time.Time, err error) {
	if iss, _ := claims.text("iss"); iss != i.URL {
		return expires, errors.New("iss is another issuer")
	}
	audiences, err := i.checkAudience(claims)
	if err != nil {
		return expires, err
	}
	if !i.IDTokens {
		if err = i.checkKind(said, claims, audiences); err != nil {
			return expires, err
		}
	}
	if err = i.checkRequired(claims); err != nil {
		return expires, err
	}
	return i.checkTimes(claims, now, i.MaxLifetime)
}

// checkAudience returns the audiences of a token. At least one of them is this gateway's.
func (i *issuer) checkAudience(claims object) ([]string, error) {
	audiences, err := claims.texts("aud")
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(i.Audiences, a) }) {
		return nil, errors.New("aud is missing, or names no audience of this gateway")
	}
	return audiences, nil
}

// checkTimes returns the end of a token, including the leeway. A longest lifetime of 0 is any.
func (i *issuer) checkTimes(claims object, now time.Time, longest time.Duration) (time.Time, error) {
	expires, err := claims.time("exp")
	notBefore, err2 := claims.time("nbf")
	issued, err3 := claims.time("iat")
	if err = errors.Join(err, err2, err3); err != nil {
		return time.Time{}, err
	}
	from := issued
	if from.IsZero() {
		from = now
	}
	switch latest := now.Add(i.Leeway); {
	case expires.IsZero():
		return time.Time{}, errors.New("exp is missing")
	case !now.Before(expires.Add(i.Leeway)):
		return time.Time{}, errExpired
	case latest.Before(notBefore):
		return time.Time{}, errors.New("nbf is in the future")
	case latest.Before(issued):
		return time.Time{}, errors.New("iat is in the future")
	case longest > 0 && expires.Sub(from) > longest:
		return time.Time{}, errors.New("its lifetime exceeds max_lifetime")
	}
	return expires.Add(i.Leeway), nil
}

// checkKind rejects tokens that are not access tokens: the ID token of a login (at_hash, c_hash and nonce in OpenID
// Connect Core §2 and §3.3.2.11; typ of Keycloak, token_use of Cognito), a logout token (events, RFC 8417), and a
// refresh token. An ID token may have none of these claims. Its audience is a client, so a token for a client needs a
// mark of an access token.
func (i *issuer) checkKind(said *unverified, claims object, audiences []string) error {
	for _, name := range [...]string{"at_hash", "c_hash", "events"} {
		if _, has := claims[name]; has {
			return errors.New(name + " shows that it is not an access token")
		}
	}
	marked := said.access
	for _, name := range [...]string{"typ", "token_use"} {
		kind, _ := claims[name].(string)
		switch strings.ToLower(kind) {
		case "id", "refresh", "offline", "logout":
			return errors.New(name + " shows that it is not an access token")
		case "bearer", "access", "at+jwt":
			marked = true
		}
	}
	if marked {
		return nil
	}
	if _, has := claims["nonce"]; has {
		return errors.New("nonce shows that it is an ID token")
	}
	if i.forClient(claims, audiences) {
		return errors.New("aud is a client, and nothing marks it as an access token")
	}
	return nil
}

// forClient reports whether the audience of a token is a client: the one that requested it, or this gateway as a client
// of sign-ins.
func (i *issuer) forClient(claims object, audiences []string) bool {
	azp, _ := claims["azp"].(string)
	for _, a := range audiences {
		if a != azp && slices.Contains(i.Audiences, a) && !slices.Contains(i.ClientIDs, a) {
			return false
		}
	}
	return true
}

// checkRequired checks that all required claims have their values.
func (i *issuer) checkRequired(claims object) error {
	for _, claim := range slices.Sorted(maps.Keys(i.Required)) {
		if !claims.has(claim, i.Required[claim]) {
			return errors.New(claim + " does not have the required value")
		}
	}
	return nil
}

// has reports whether a claim has a value, or is a list with it.
func (o object) has(claim, value string) bool {
	v, _ := o.at(claim)
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	return slices.ContainsFunc(list, func(item any) bool {
		switch item := item.(type) {
		case string:
			return item == value
		case bool:
			return value == "true" && item || value == "false" && !item
		case json.Number:
			return item.String() == value
		}
		return false
	})
}

// identity returns the identity in the claims.
func (i *issuer) identity(claims object) (identity tenant.Identity, err error) {
	identity = tenant.Identity{Tenant: i.Tenant, Key: i.Name, Scopes: i.Scopes}
	if i.Claims.Tenant != "" {
		if identity.Tenant, err = claims.text(i.Claims.Tenant); err != nil {
			return identity, err
		}
	}
	if !call.IsZone(identity.Tenant) {
		return identity, errors.New("the tenant is not a valid id")
	}
	if identity.User, err = claims.name(i.Claims.User); err != nil {
		return identity, err
	}
	if _, has := claims.at(i.Claims.Agent); has && i.Claims.Agent != "" {
		if identity.Agent, err = claims.name(i.Claims.Agent); err != nil {
			return identity, err
		}
	}
	identity.Person = i.person(claims)
	if i.Claims.Scopes != "" {
		identity.Scopes, err = i.scopes(claims)
	}
	return identity, err
}

// person returns the person of a token. Groups that are not names, or exceed the bound, are left out: a group can only
// add permissions.
func (i *issuer) person(claims object) *tenant.Person {
	if i.Claims.Groups == "" {
		return tenant.NewPerson(i.Name, nil)
	}
	v, _ := claims.at(i.Claims.Groups)
	var groups []string
	switch v := v.(type) {
	case string:
		groups = strings.Fields(v)
	case []any:
		for _, item := range v {
			name, _ := item.(string)
			groups = append(groups, name)
		}
	}
	return tenant.NewPerson(i.Name, groups)
}

func (i *issuer) scopes(claims object) (scopes tenant.Scopes, err error) {
	v, _ := claims.at(i.Claims.Scopes)
	if text, ok := v.(string); ok {
		for word := range strings.FieldsSeq(text) {
			scopes |= i.ScopeNames[word]
		}
		return scopes, nil
	}
	words, err := claims.texts(i.Claims.Scopes)
	for _, word := range words {
		scopes |= i.ScopeNames[word]
	}
	return scopes, err
}

// maxName is the longest name of a user or an agent, in bytes.
const maxName = 256

// name returns a claim with a user or an agent. Names that look equal in a log must be equal.
func (o object) name(path string) (string, error) {
	name, err := o.text(path)
	if err == nil && (len(name) > maxName ||
		strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) })) {
		err = errors.New(path + " is too long for a name, or has unprintable characters")
	}
	return name, err
}
