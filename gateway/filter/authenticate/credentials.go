package authenticate

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// AgentHeader is metadata in which a caller names its agent. It is not forwarded, see clientaddr.Reserved.
const AgentHeader = "x-agent-id"

// SignatureHeader is metadata with the signature of a signed URL, instead of a credential. It is not forwarded, see
// clientaddr.Reserved.
const SignatureHeader = "x-capgate-signature"

// tenantHeader is metadata in which some callers name their tenant. It is only compared with the tenant of a listener,
// and not forwarded, see clientaddr.Reserved.
const tenantHeader = "x-tenant-id"

// Headers is the part of a call or HTTP request that authentication reads.
type Headers interface {
	Header(name string) (string, bool)
	Contradicts(name string) bool
	DropHeader(name string)
}

// Credentials returns the credentials of a call, as parts of its headers. If callers need credentials, they are
// removed from the call, valid or not, so that no backend receives them. The client certificate is only used if the
// call has no credential. at is the call's listener, and peer is the client certificate; both may be nil.
func (c *Callers) Credentials(s Headers, at *tenant.Listener, peer *tenant.Peer) (claim tenant.Credentials,
	refusal *call.Refusal) {
	claim.At = at
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
	switch {
	case showsNone(refusal) && peer != nil:
		claim.Peer, refusal = peer, nil
	case showsNone(refusal) && at.Anonymous():
		refusal = nil
	case refusal == nil && claim.Credential == "" && at.Anonymous():
		refusal = rejectedEmpty
	case refusal == nil && claim.Credential == "" && c.credentials:
		refusal = rejectedNoCredential
	}
	var hasUser, hasAgent bool
	claim.User, hasUser = s.Header(filter.UserHeader)
	claim.Agent, hasAgent = s.Header(AgentHeader)
	if refusal == nil && (hasUser && s.Contradicts(filter.UserHeader) || hasAgent && s.Contradicts(AgentHeader)) {
		refusal = filter.TwoIdentities
	}
	if refusal == nil && at.Anonymous() {
		refusal = checkTenant(s, at.Tenant)
	}
	return claim, refusal
}

// checkTenant rejects a call at a tenant's listener that names another tenant.
func checkTenant(s Headers, own string) *call.Refusal {
	if named, ok := s.Header(tenantHeader); ok && (named != own || s.Contradicts(tenantHeader)) {
		return tenant.RefuseAt(tenant.TenantPart)
	}
	return nil
}

// Drop removes the credentials from a call that needs none, so that no backend receives them.
func (c *Callers) Drop(t *filter.Call) { _, _ = c.Credentials(t.Stream, t.Client.At, t.Details.Peer) }

// showsAny reports whether a call has a credential, and removes it.
func showsAny(s Headers) bool {
	_, refusal := credentialOf(s)
	return !showsNone(refusal)
}

// showsNone reports whether a refusal means that the call has no credential of this gateway.
func showsNone(refusal *call.Refusal) bool {
	return refusal == rejectedNobody || refusal == rejectedForeign
}

// credentialOf removes the credential and the keys of other services from a call, and returns the credential.
func credentialOf(s Headers) (string, *call.Refusal) {
	credential, shown := tenant.ShownBy(s)
	s.DropHeader(tenant.AuthorizationHeader)
	s.DropHeader(tenant.APIKeyHeader)
	switch shown {
	case tenant.ShowsNothing:
		return "", rejectedNobody
	case tenant.ShowsForeign:
		return "", rejectedForeign
	case tenant.ShowsTwo:
		return "", rejectedTwoCredentials
	case tenant.ShowsOne, tenant.ShowsEmpty:
	}
	return credential, nil
}

var (
	rejectedNobody = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_MISSING",
		Message: "an API key or a token is required: send it in the metadata or header authorization, after Bearer " +
			"and a space, or alone in x-api-key"}
	rejectedForeign = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "x-api-key is neither an API key of this gateway, which begins with cg_, nor a token"}
	rejectedTwoCredentials = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the call has two different credentials"}
	rejectedEmpty = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the call has an empty credential, or a scheme other than Bearer; this listener requires none"}
	rejectedNoCredential = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the call has an empty credential, or a scheme other than Bearer: send the key or token in the " +
			"metadata or header authorization, after Bearer and a space, or alone in x-api-key"}
)
