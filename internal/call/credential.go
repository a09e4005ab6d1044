package call

import "strings"

// IsCredential reports whether a text has the form of a credential of the gateway: an API key, the token that the
// process prints at its start, the session of a program, or a JSON Web Token. Clients also send keys of other services
// as x-api-key, which are none.
func IsCredential(text string) bool {
	for _, prefix := range [...]string{"cg_", "cgstart_", "cgsession_"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return strings.HasPrefix(text, "ey") && strings.Count(text, ".") == 2 // base64url of a JSON object (RFC 7515 §3.1)
}
