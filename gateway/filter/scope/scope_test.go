package scope_test

import (
	"fmt"
	"testing"

	"github.com/capgate/capgate/gateway/filter/scope"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/filtertest"
)

func TestBuiltin(t *testing.T) {
	t.Parallel()
	for path, suffice := range map[string]tenant.Scopes{
		"/capgate.v1.Catalog/ListTools":       tenant.Read,
		"/capgate.v1.Artifacts/Sign":          tenant.Invoke,
		"/capgate.v1.Approvals/ListApprovals": tenant.Read | tenant.Approve,
		"/capgate.v1.Approvals/Approve":       tenant.Read | tenant.Approve, // the service itself checks the approver
		"/capgate.v1.Tenants/CreateAPIKey":    tenant.Admin,
	} {
		for _, has := range []tenant.Scopes{tenant.Invoke, tenant.Read, tenant.Approve, tenant.Admin} {
			c, _ := filtertest.NewCall()
			c.Info.Path, c.Credential.Scopes = path, has
			refusal := scope.Builtin(c)
			if (refusal == nil) != suffice.Any(has) || refusal != nil && refusal.Reason != "SCOPE_MISSING" {
				t.Errorf("%s with %s: %+v", path, has, refusal)
			}
		}
	}
}

// TestSigned: the signature of a URL permits a download and nothing else.
func TestSigned(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.NewCall()
	c.Credential.Scopes, c.Credential.Only = tenant.Invoke, &tenant.Download{}
	invoke, builtin, download := scope.Invoke(c), scope.Builtin(c), scope.Download(c)
	if invoke == nil || builtin == nil || download != nil {
		t.Errorf("a signature is good for downloads alone; refusals of a call %v, a builtin RPC %v, a download %v",
			invoke, builtin, download)
	}
}

// A credential that may only read cannot call capabilities.
func Example() {
	c, _ := filtertest.NewCall()
	c.Credential.Scopes = tenant.Read
	r := scope.Invoke(c)
	fmt.Println(r.Reason, r.Metadata["scope"])
	// Output: SCOPE_MISSING invoke
}
