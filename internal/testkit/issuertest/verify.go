package issuertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Verify verifies a token with a JWK Set, like a server that accepts only ES256 and its own audience. It returns the
// claims.
func Verify(set []byte, token, audience string, now time.Time) (claims map[string]any, _ error) {
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(set, &keys); err != nil {
		return nil, fmt.Errorf("the set: %w", err)
	}
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, err
	}
	found := keys.Key(signed.Headers[0].KeyID)
	if len(found) != 1 || found[0].Use != "sig" || found[0].Algorithm != "ES256" || !found[0].IsPublic() {
		return nil, fmt.Errorf("%d keys %q", len(found), signed.Headers[0].KeyID)
	}
	var standard jwt.Claims
	if err := signed.Claims(found[0].Key, &standard, &claims); err != nil {
		return nil, err
	}
	if standard.Expiry == nil || standard.IssuedAt == nil || standard.ID == "" || standard.Subject == "" {
		return nil, errors.New("exp, iat, jti or sub is missing")
	}
	return claims, standard.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{audience}, Time: now}, 0)
}
