package authenticate

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Metadata in which a caller shows its credential: as a bearer token, or a bare API key.
const (
	AuthorizationHeader = "authorization"
	APIKeyHeader        = "x-api-key"
)

// AgentHeader is metadata in which a caller names its agent. No backend gets it: see clientaddr.Reserved.
const AgentHeader = "x-agent-id"

// SignatureHeader is metadata with the signature of a signed URL, in place of a credential. No backend gets it: see
// clientaddr.Reserved.
const SignatureHeader = "x-capgate-signature"

// Headers are those of a call, or of a request that becomes one.
type Headers interface {
	Header(name string) (string, bool)
	Contradicts(name string) bool
	DropHeader(name string)
}

// Credentials are what a call says of its caller, in parts of its headers. Where callers need credentials, they are
// taken out of the call, whatever they are: no backend gets them. peer is the owner of the connection's certificate,
// which counts where a call shows no credential.
func (c *Callers) Credentials(s Headers, peer *tenant.Peer) (claim tenant.Credentials, refusal *call.Refusal) {
	if signature, ok := s.Header(SignatureHeader); ok {
		if s.Contradicts(SignatureHeader) || c.credentials && showsAny(s) {
			return claim, rejectedTwoCredentials
		}
		claim.Signature = signature
		return claim, nil
	}
	if c.credentials {
		claim.Credential, refusal = credentialOf(s)
	}
	if refusal == rejectedNobody && peer != nil {
		claim.Peer, refusal = peer, nil
	}
	if refusal == nil && (s.Contradicts(filter.UserHeader) || s.Contradicts(AgentHeader)) {
		refusal = filter.TwoIdentities
	}
	claim.User, _ = s.Header(filter.UserHeader)
	claim.Agent, _ = s.Header(AgentHeader)
	return claim, refusal
}

// Drop takes the credentials out of a call that needs none: no backend gets them.
func (c *Callers) Drop(t *filter.Call) { _, _ = c.Credentials(t.Stream, t.Client.Peer) }

// showsAny is whether a call shows a credential, which is taken out of it.
func showsAny(s Headers) bool {
	_, refusal := credentialOf(s)
	return refusal != rejectedNobody
}

// credentialOf takes the one credential of a call out of it.
func credentialOf(s Headers) (string, *call.Refusal) {
	authorization, bearer := s.Header(AuthorizationHeader)
	if bearer {
		s.DropHeader(AuthorizationHeader)
	}
	key, bare := s.Header(APIKeyHeader)
	if bare {
		s.DropHeader(APIKeyHeader)
	}
	switch token := tenant.Bearer(authorization); {
	case !bearer && !bare:
		return "", rejectedNobody
	case s.Contradicts(AuthorizationHeader), s.Contradicts(APIKeyHeader), bearer && bare && token != key:
		return "", rejectedTwoCredentials
	case bearer:
		return token, nil
	}
	return key, nil
}

var (
	rejectedNobody = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_MISSING",
		Message: "an API key or a token is needed: send it as metadata or header authorization, Bearer and the credential; " +
			"a key alone also as x-api-key"}
	rejectedTwoCredentials = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the call shows two different credentials"}
)
