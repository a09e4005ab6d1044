package scope

import (
	"strings"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Invoke rejects calls of capabilities whose credential may not call any.
func Invoke(c *filter.Call) *call.Refusal {
	if c.Credential.Only != nil {
		return tenant.RefuseSignature()
	}
	return Download(c)
}

// Download is Invoke for downloads, which the signature of a URL may allow.
func Download(c *filter.Call) *call.Refusal {
	if !c.Credential.Scopes.Any(tenant.Invoke) {
		return RejectedInvoking
	}
	return nil
}

// Builtin is Invoke for the gateway's own services.
func Builtin(c *filter.Call) *call.Refusal {
	have := c.Credential.Scopes
	switch {
	case c.Credential.Only != nil:
		return tenant.RefuseSignature()
	case strings.HasPrefix(c.Info.Path, "/capgate.v1.Artifacts/"):
		if !have.Any(tenant.Invoke) { // for a download
			return RejectedInvoking
		}
	case strings.HasPrefix(c.Info.Path, "/capgate.v1.Approvals/"):
		if !have.Any(tenant.Read | tenant.Approve) { // the service checks who may answer
			if strings.HasSuffix(c.Info.Path, "/Approve") || strings.HasSuffix(c.Info.Path, "/Deny") {
				return rejectedAnswering
			}
			return RejectedReading
		}
	case strings.HasPrefix(c.Info.Path, "/capgate.v1.Tenants/"):
		if !have.Any(tenant.Admin) {
			return rejectedAdministering
		}
	case !have.Any(tenant.Read):
		return RejectedReading
	}
	return nil
}

// Rejections of callers that lack a scope.
var (
	RejectedInvoking  = filter.ScopeMissing(tenant.Invoke, "the credential may not call capabilities")
	RejectedReading   = filter.ScopeMissing(tenant.Read, "the credential may not list capabilities and tools")
	rejectedAnswering = filter.ScopeMissing(tenant.Approve, "the credential may not answer approvals")

	rejectedAdministering = filter.ScopeMissing(tenant.Admin,
		"the credential may not read its tenant and the tenant's keys")
)
