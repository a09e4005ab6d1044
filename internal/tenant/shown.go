package tenant

import "github.com/capgate/capgate/internal/call"

// Metadata and headers in which a caller shows its credential.
const (
	AuthorizationHeader = "authorization" // Bearer and the credential
	APIKeyHeader        = "x-api-key"     // the credential alone
)

// Shown is the kind of credential that a request shows.
type Shown uint8

// The kinds of Shown.
const (
	ShowsNothing Shown = iota
	ShowsOne           // one credential, in one header or in both
	ShowsEmpty         // an empty credential, or a scheme other than Bearer
	ShowsTwo           // two different credentials
	ShowsForeign       // the key of another service as x-api-key, and nothing else
)

// ShownBy returns the credential that a request shows, of whatever kind and in whichever header. It is the same at all
// ports and for all protocols. A key of another service beside a credential does not count.
func ShownBy(headers interface {
	Header(name string) (first string, present bool)
	Contradicts(name string) bool // there are different values
}) (credential string, shown Shown) {
	authorization, hasAuthorization := headers.Header(AuthorizationHeader)
	key, hasKey := headers.Header(APIKeyHeader)
	bearer, own := Bearer(authorization), call.IsCredential(key)
	switch {
	case hasAuthorization && (headers.Contradicts(AuthorizationHeader) || own && bearer != key),
		hasKey && headers.Contradicts(APIKeyHeader):
		return "", ShowsTwo
	case own:
		return key, ShowsOne
	case bearer != "":
		return bearer, ShowsOne
	case hasAuthorization || hasKey && key == "":
		return "", ShowsEmpty
	case hasKey:
		return "", ShowsForeign
	}
	return "", ShowsNothing
}
