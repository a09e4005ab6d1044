package gateway

import (
	"strings"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// scopeInvoke rejects calls of capabilities whose caller may make none.
func scopeInvoke(t *filter.Call) *call.Refusal {
	if t.Principal.Only != nil {
		return tenant.RefuseSignature()
	}
	return scopeDownload(t)
}

// scopeDownload is scopeInvoke for what the signature of a URL is good for.
func scopeDownload(t *filter.Call) *call.Refusal {
	if !t.Principal.Scopes.Any(tenant.Invoke) {
		return refusedInvoking
	}
	return nil
}

// scopeBuiltin is scopeInvoke for the services of the gateway's own.
func scopeBuiltin(t *filter.Call) *call.Refusal {
	have := t.Principal.Scopes
	switch {
	case t.Principal.Only != nil:
		return tenant.RefuseSignature()
	case strings.HasPrefix(t.Info.Path, "/capgate.v1.Artifacts/"):
		if !have.Any(tenant.Invoke) { // as a download
			return refusedInvoking
		}
	case strings.HasPrefix(t.Info.Path, "/capgate.v1.Approvals/"):
		if !have.Any(tenant.Read | tenant.Approve) { // who answers is looked at there
			if strings.HasSuffix(t.Info.Path, "/Approve") || strings.HasSuffix(t.Info.Path, "/Deny") {
				return refusedAnswering
			}
			return refusedReading
		}
	case strings.HasPrefix(t.Info.Path, "/capgate.v1.Tenants/"):
		if !have.Any(tenant.Admin) {
			return refusedAdministering
		}
	case !have.Any(tenant.Read):
		return refusedReading
	}
	return nil
}

var (
	refusedInvoking  = filter.ScopeMissing(tenant.Invoke, "the credential is not one that may call capabilities")
	refusedReading   = filter.ScopeMissing(tenant.Read, "the credential is not one that may list what there is")
	refusedAnswering = filter.ScopeMissing(tenant.Approve, "the credential is not one that may answer approvals")

	refusedAdministering = filter.ScopeMissing(tenant.Admin, "the credential is not one that may see its tenant and that one's keys")
)
