package gateway

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Metadata in which a caller shows its API key: as a bearer token, or bare.
const (
	authorizationHeader = "authorization"
	apiKeyHeader        = "x-api-key"
)

// Keyed identifies callers by the API keys that they show. Neither metadata that may hold
// one goes any further, whatever it holds.
type Keyed struct{ Keys *tenant.Keys }

// Identify implements Identifier.
func (i Keyed) Identify(s *relay.Stream) (tenant.Identity, *call.Refusal) {
	credential, refusal := credentialOf(s)
	if refusal == nil && (s.Contradicts(userHeader) || s.Contradicts(agentHeader)) {
		refusal = refusedTwoIdentities
	}
	if refusal != nil {
		return tenant.Identity{}, refusal
	}
	user, _ := s.Header(userHeader)
	agent, _ := s.Header(agentHeader)
	return i.Keys.Identify(tenant.Claim{Credential: credential, User: user, Agent: agent})
}

// credentialOf takes the one credential of a call out of it.
func credentialOf(s *relay.Stream) (string, *call.Refusal) {
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
		Message: "an API key is needed: send it as metadata or header authorization, Bearer and the key, or as x-api-key"}
	refusedTwoCredentials = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the call shows two different credentials"}
)
