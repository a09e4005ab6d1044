package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// TestOperatorOfSeveralTenants: the roles of all entries apply, each for its tenant.
func TestOperatorOfSeveralTenants(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	base := "http://" + g.admin
	bea := g.issuer.Token(t, map[string]any{"sub": "bea"}) // viewer of acme, admin of globex
	cid := g.issuer.Token(t, map[string]any{"sub": "cid"}) // viewer of all, admin of acme
	put := func(credential, tenant string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+"/v1/policies", strings.NewReader(
			`{"tenant":"`+tenant+`","capability":"weather","tool":"of-`+tenant+`","policy":"allow"}`))
		check.Must(t, err)
		req.Header.Set("Authorization", "Bearer "+credential)
		resp, err := clienttest.HTTP.Do(req)
		check.Must(t, err)
		defer resp.Body.Close()
		var text strings.Builder
		check.Must(t, resp.Write(&text))
		return resp.StatusCode, text.String()
	}
	for _, test := range []struct {
		credential, tenant string
		status             int
		part               string
	}{
		{bea, "globex", 200, "of-globex"},
		{bea, "acme", 403, "OPERATOR_TENANT"},
		{cid, "acme", 200, "of-acme"},
		{cid, "globex", 403, "OPERATOR_TENANT"},
		{bea, "", 200, `"tenant":"globex"`}, // the only one that she may change
	} {
		if status, text := put(test.credential, test.tenant); status != test.status ||
			!strings.Contains(text, test.part) {
			t.Errorf("%q: %d %s", test.tenant, status, text)
		}
	}
	for _, test := range []struct {
		credential, path string
		status           int
		parts            []string
	}{
		{bea, "/v1/me", 200, []string{`"tenant":""`, `"roles":["viewer","admin"]`, `"all_roles":[]`,
			`"tenants":[{"tenant":"acme","roles":["viewer"]},{"tenant":"globex","roles":["admin"]}]`}},
		{cid, "/v1/me", 200, []string{`"all_roles":["viewer"],"tenants":[{"tenant":"acme","roles":["admin"]}]`}},
		{g.keys["admin"], "/v1/me", 200, []string{`"tenant":"","roles":["admin"],"groups"`}},
		{bea, "/v1/policies", 200, []string{"of-acme", "of-globex"}},
		{bea, "/v1/policies?tenant=-&page_size=1", 200, []string{"of-acme", "next_page_token"}},
		{bea, "/v1/policies?tenant=acme", 200, []string{"of-acme"}},
		{bea, "/v1/policies?query=OF-ACM", 200, []string{"of-acme"}},
		{bea, "/v1/policies?query=weather+globex", 200, []string{"of-globex"}},
		{bea, "/v1/tools?query=w", 403, []string{"OPERATOR_TENANT"}},
		{bea, "/v1/fleets?query=w&order_by=failing", 403, []string{"OPERATOR_TENANT"}},
		{bea, "/v1/webhooks/dead?query=w", 403, []string{"OPERATOR_TENANT"}},
		{bea, "/v1/tenants", 200, []string{`"acme"`, `"globex"`}},
		{bea, "/v1/tenants?page_size=1", 200, []string{`"acme"`, "next_page_token"}},
		{bea, "/v1/tenants/-/keys", 200, []string{"role.viewer"}},
		{bea, "/v1/approvals", 200, []string{`"approvals":[]`}},
		{bea, "/v1/calls", 200, []string{`"calls":[]`}},
		{bea, "/v1/summary", 200, []string{`"minutes":[`}},
		{bea, "/v1/limits", 200, []string{`"tenants":[]`}},
		{bea, "/v1/policies:explain?capability=weather&tool=x&force=true", 400,
			[]string{"TENANT_REQUIRED", "acme, globex"}},
		{bea, "/v1/policies:explain?capability=weather&tool=x&force=true&tenant=acme", 200, nil},
		{bea, "/v1/policies?global=true", 403, []string{"OPERATOR_TENANT", "the tenants acme, globex alone"}},
		{bea, "/v1/fleets", 403, []string{"OPERATOR_TENANT"}},
		{cid, "/v1/fleets", 200, nil},
		{cid, "/v1/sessions", 403, []string{"OPERATOR_TENANT", "the tenant acme alone"}},
	} {
		status, text := request(t.Context(), t, http.MethodGet, base+test.path, test.credential)
		if status != test.status {
			t.Errorf("%s: %d %s", test.path, status, text)
		}
		for _, part := range test.parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s is missing: %s", test.path, part, text)
			}
		}
	}
	for _, tenant := range []string{"acme", "globex"} { // changes are listed a moment later
		check.Until(t, "the change of a rule", func() (bool, string) {
			_, text := request(t.Context(), t, http.MethodGet, base+"/v1/audit?what=rule.*", bea)
			return strings.Contains(text, `"tenant":"`+tenant+`"`), fmt.Sprint(text)
		})
	}
}
