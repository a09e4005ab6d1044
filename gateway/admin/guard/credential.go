package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// Credential returns the credential of a request, from Authorization: Bearer or X-Api-Key. For two different
// credentials, or other schemes, present is true and text is empty. Keys of other services are ignored.
func Credential(r *http.Request) (text string, present bool) {
	text, shown := tenant.ShownBy(fields(r.Header))
	return text, shown != tenant.ShowsNothing && shown != tenant.ShowsForeign
}

// fields gives access to the headers of a request.
type fields http.Header

// Header returns the first value of a header.
func (f fields) Header(name string) (string, bool) {
	values := http.Header(f).Values(name)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// Contradicts reports whether a header has different values.
func (f fields) Contradicts(name string) bool {
	return len(slices.Compact(slices.Clone(http.Header(f).Values(name)))) > 1
}

// digestOf returns a digest of the request's credential, or of its cookies.
func digestOf(r *http.Request) (digest [sha256.Size]byte, present bool) {
	if text, ok := Credential(r); ok {
		return sha256.Sum256([]byte("credential " + text)), true
	}
	return digest, false
}

// Refusals of invalid credentials.
var (
	refusedCredential = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the credential is neither an operator's key nor any other that the admin API accepts"}
	refusedEmpty = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the request has an empty credential, two different ones, or a scheme other than Bearer: " +
			"send one key or token as header or metadata authorization, after Bearer and a space"}
	refusedForeign = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "X-Api-Key is neither an API key of this gateway, which begins with cg_, nor a token"}
)

// StartToken authenticates by the token that the process printed at startup.
type StartToken struct{ digest [sha256.Size]byte }

// NewStartToken returns an authenticator for a token.
func NewStartToken(token string) *StartToken { return &StartToken{sha256.Sum256([]byte(token))} }

// Matches compares a token in constant time.
func (s *StartToken) Matches(token string) bool {
	digest := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(digest[:], s.digest[:]) == 1
}

// Identity returns the operator of the token.
func (s *StartToken) Identity() *operator.Identity {
	return &operator.Identity{Name: "start token", Roles: operator.Admin, Via: operator.ViaStart}
}

// Authenticate implements Authenticator.
func (s *StartToken) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	text, _ := Credential(r)
	if !strings.HasPrefix(text, operator.StartPrefix) {
		return nil, false, nil
	}
	if !s.Matches(text) {
		return nil, true, refusedStart
	}
	return s.Identity(), true, nil
}

var refusedStart = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
	Message: "the start token does not belong to this process; use the one that it printed at startup"}
