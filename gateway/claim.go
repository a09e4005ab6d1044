package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Metadata in which a caller shows its credential: as a bearer token, or an API key bare.
const (
	authorizationHeader = "authorization"
	apiKeyHeader        = "x-api-key"
)

// Metadata in which a caller says who it is. It goes no further: see clientaddr.Reserved.
const (
	agentHeader = "x-agent-id"
)

// signatureHeader is what a signed URL has in place of a credential. It goes no further, as
// clientaddr.Reserved knows all such names.
const signatureHeader = "x-capgate-signature"

// shown are the headers of a call, or of a request that becomes one.
type shown interface {
	Header(name string) (string, bool)
	Contradicts(name string) bool
	DropHeader(name string)
}

// claimOf is what a call says of its caller, in parts of its headers. Where there are credentials,
// they are taken out of the call, whatever they are: no backend is to see them.
// peer is whose certificate the connection has, which is asked where a call shows no credential.
func claimOf(s shown, credentials bool, peer *tenant.Peer) (claim tenant.Credentials, refusal *call.Refusal) {
	if signature, ok := s.Header(signatureHeader); ok {
		if s.Contradicts(signatureHeader) || credentials && showsAny(s) {
			return claim, refusedTwoCredentials
		}
		claim.Signature = signature
		return claim, nil
	}
	if credentials {
		claim.Credential, refusal = credentialOf(s)
	}
	if refusal == refusedNobody && peer != nil {
		claim.Peer, refusal = peer, nil
	}
	if refusal == nil && (s.Contradicts(filter.UserHeader) || s.Contradicts(agentHeader)) {
		refusal = filter.TwoIdentities
	}
	claim.User, _ = s.Header(filter.UserHeader)
	claim.Agent, _ = s.Header(agentHeader)
	return claim, refusal
}

// showsAny is whether a call shows a credential, which is taken out of it.
func showsAny(s shown) bool {
	_, refusal := credentialOf(s)
	return refusal != refusedNobody
}

// credentialOf takes the one credential of a call out of it.
func credentialOf(s shown) (string, *call.Refusal) {
	authorization, bearer := s.Header(authorizationHeader)
	if bearer {
		s.DropHeader(authorizationHeader)
	}
	key, bare := s.Header(apiKeyHeader)
	if bare {
		s.DropHeader(apiKeyHeader)
	}
	switch token := tenant.Bearer(authorization); {
	case !bearer && !bare:
		return "", refusedNobody
	case s.Contradicts(authorizationHeader), s.Contradicts(apiKeyHeader), bearer && bare && token != key:
		return "", refusedTwoCredentials
	case bearer:
		return token, nil
	}
	return key, nil
}

var (
	refusedNobody = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_MISSING",
		Message: "an API key or a token is needed: send it as metadata or header authorization, Bearer and the credential; a key alone also as x-api-key"}
	refusedTwoCredentials = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the call shows two different credentials"}
)
