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

// scopeEngine is scopeInvoke for methods of engines, each of which has a scope of its own.
func scopeEngine(t *callState) *call.Refusal {
	switch {
	case t.Principal.Only != nil:
		return tenant.RefuseSignature()
	case !t.Principal.Scopes.Any(t.engine.Scope):
		return missing(t.engine.Scope, "the credential is not one that may call this method of engines")
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
	refusedInvoking  = missing(tenant.Invoke, "the credential is not one that may call capabilities")
	refusedReading   = missing(tenant.Read, "the credential is not one that may list what there is")
	refusedAnswering = missing(tenant.Approve, "the credential is not one that may answer approvals")

	refusedAdministering = missing(tenant.Admin, "the credential is not one that may see its tenant and that one's keys")
)

func missing(scope tenant.Scopes, message string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING", Message: message, Metadata: map[string]string{"scope": scope.String()}}
}
