package tenants_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestATenantsOwnKeys: a caller with the scope admin manages the keys of its own tenant only.
func TestATenantsOwnKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tenant(t, "acme")
	r.tenant(t, "globex")
	_, admin := r.key(t, "acme", "admin", "invoke", "read")
	strong, ofStrong := r.key(t, "acme", "admin", "policy")
	theirs, ofTheirs := r.key(t, "globex", "invoke")
	ctx := showing(t, admin)
	for _, name := range []string{"-", "acme"} {
		if got, err := r.caller.GetTenant(ctx, &capgatepb.GetTenantRequest{TenantId: name}); err != nil ||
			got.GetTenant().GetId() != "acme" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	made, err := r.caller.CreateKey(ctx, &capgatepb.CreateKeyRequest{TenantId: "-", Key: &capgatepb.Key{Name: "one"}})
	if err != nil || !strings.HasPrefix(made.GetKey().GetCreatedBy(), "key ") ||
		made.GetKey().GetTenant() != "acme" || r.invoke(t, made.GetCredential()) != "" {
		t.Fatalf("%v, %v", made, err)
	}
	if all, err := r.caller.ListKeys(ctx, &capgatepb.ListKeysRequest{TenantId: "-"}); err != nil ||
		len(all.GetKeys()) != 3 {
		t.Errorf("%v, %v", all, err)
	}
	explainRotated, err := r.caller.RotateKey(ctx,
		&capgatepb.RotateKeyRequest{TenantId: "-", KeyId: made.GetKey().GetId()})
	if err != nil || r.invoke(t, explainRotated.GetCredential()) != "" {
		t.Errorf("%v, %v", explainRotated, err)
	}
	// No caller can extend its permissions: by a new key, or by rotating a key with more permissions.
	for what, key := range map[string]*capgatepb.Key{
		"a scope":            {Scopes: []string{"invoke", "policy"}},
		"an assertion":       {Asserts: []string{"user"}},
		"the role viewer":    {Scopes: []string{"role.viewer"}},
		"the role operator":  {Scopes: []string{"invoke", "role.operator"}},
		"the role approver":  {Scopes: []string{"role.approver"}},
		"the role admin":     {Scopes: []string{"admin", "role.admin"}},
		"a role of a strong": {Scopes: []string{"role.viewer", "role.admin", "read"}},
	} {
		_, err = r.caller.CreateKey(ctx, &capgatepb.CreateKeyRequest{TenantId: "-", Key: key})
		expect(t, what, err, codes.PermissionDenied, "GRANT_EXCEEDED")
	}
	_, err = r.caller.RotateKey(ctx, &capgatepb.RotateKeyRequest{TenantId: "-", KeyId: strong.GetId()})
	expect(t, "rotating a stronger one", err, codes.PermissionDenied, "GRANT_EXCEEDED")
	_, err = r.caller.CreateTenant(ctx, &capgatepb.CreateTenantRequest{Tenant: &capgatepb.Tenant{Id: "new"}})
	expect(t, "a tenant", err, codes.PermissionDenied, "OPERATORS_ONLY")
	_, err = r.caller.UpdateTenant(ctx,
		&capgatepb.UpdateTenantRequest{Tenant: &capgatepb.Tenant{Id: "acme", Capabilities: []string{"*"}}})
	expect(t, "its own grants", err, codes.PermissionDenied, "OPERATORS_ONLY")
	_, err = r.caller.DeleteTenant(ctx, &capgatepb.DeleteTenantRequest{TenantId: "acme", Force: true})
	expect(t, "itself", err, codes.PermissionDenied, "OPERATORS_ONLY")
	_, err = r.caller.ListTenants(ctx, &capgatepb.ListTenantsRequest{})
	expect(t, "all tenants", err, codes.PermissionDenied, "OPERATORS_ONLY")

	// It may revoke any key of its tenant; a caller without the scope admin may revoke none.
	if _, err := r.caller.RevokeKey(ctx, &capgatepb.RevokeKeyRequest{TenantId: "-",
		KeyId: strong.GetId()}); err != nil {
		t.Error(err)
	}
	_, err = r.caller.GetTenant(showing(t, ofStrong), &capgatepb.GetTenantRequest{TenantId: "-"})
	expect(t, "a revoked admin", err, codes.Unauthenticated, "CREDENTIAL_INVALID")
	_, err = r.caller.ListKeys(showing(t, ofTheirs), &capgatepb.ListKeysRequest{TenantId: "-"})
	expect(t, "no admin", err, codes.PermissionDenied, "SCOPE_MISSING")
	_, err = r.caller.ListKeys(t.Context(), &capgatepb.ListKeysRequest{TenantId: "-"})
	expect(t, "nobody", err, codes.Unauthenticated, "CREDENTIAL_MISSING")

	// Keys of others and unknown keys give the same error.
	for _, of := range []string{"globex", "nobody", "filed"} {
		for what, call := range map[string]func() (proto.Message, error){
			"get": func() (proto.Message, error) {
				return r.caller.GetTenant(ctx, &capgatepb.GetTenantRequest{TenantId: of})
			},
			"create": func() (proto.Message, error) {
				return r.caller.CreateKey(ctx, &capgatepb.CreateKeyRequest{TenantId: of})
			},
			"list": func() (proto.Message, error) {
				return r.caller.ListKeys(ctx, &capgatepb.ListKeysRequest{TenantId: of})
			},
			"rotate": func() (proto.Message, error) {
				return r.caller.RotateKey(ctx, &capgatepb.RotateKeyRequest{TenantId: of, KeyId: theirs.GetId()})
			},
			"revoke": func() (proto.Message, error) {
				return r.caller.RevokeKey(ctx, &capgatepb.RevokeKeyRequest{TenantId: of, KeyId: theirs.GetId()})
			},
		} {
			_, err := call()
			expect(t, what+" of "+of, err, codes.NotFound, "TENANT_UNKNOWN")
		}
	}
	for _, id := range []string{theirs.GetId(), "abcdefghijklmnop", r.filed} {
		_, err = r.caller.RevokeKey(ctx, &capgatepb.RevokeKeyRequest{TenantId: "-", KeyId: id})
		expect(t, "another's key", err, codes.NotFound, "KEY_UNKNOWN")
	}
	if got := r.invoke(t, ofTheirs); got != "" {
		t.Errorf("another tenant's key: %s", got)
	}
}

// TestATenantOfTheFile: with a key of the file, a tenant of the file creates keys in Redis, which may have the
// same assertions.
func TestATenantOfTheFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := showing(t, r.ofFiled)
	made, err := r.caller.CreateKey(ctx,
		&capgatepb.CreateKeyRequest{TenantId: "-", Key: &capgatepb.Key{Asserts: []string{"user"}}})
	if err != nil || r.invoke(t, made.GetCredential()) != "" {
		t.Errorf("%v, %v", made, err)
	}
	_, err = r.caller.CreateKey(ctx,
		&capgatepb.CreateKeyRequest{TenantId: "-", Key: &capgatepb.Key{Asserts: []string{"agent"}}})
	expect(t, "another assertion", err, codes.PermissionDenied, "GRANT_EXCEEDED")
	_, err = r.caller.RotateKey(ctx, &capgatepb.RotateKeyRequest{TenantId: "-", KeyId: r.filed})
	expect(t, "the file's key", err, codes.FailedPrecondition, "KEY_IN_FILE")
}

// TestJSONOfCallers: the same at the public port, over JSON.
func TestJSONOfCallers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tenant(t, "acme")
	_, admin := r.key(t, "acme", "admin", "invoke")
	mine, _ := r.key(t, "acme", "invoke")
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/tenants/-", "", 200, `"acme"`},
		{"GET", "/v1/tenants/globex", "", 404, "TENANT_UNKNOWN"},
		{"GET", "/v1/tenants", "", 403, "OPERATORS_ONLY"},
		{"POST", "/v1/tenants", `{"id":"x"}`, 403, "OPERATORS_ONLY"},
		{"PATCH", "/v1/tenants/acme", `{"disabled":false}`, 403, "OPERATORS_ONLY"},
		{"DELETE", "/v1/tenants/acme", "", 403, "OPERATORS_ONLY"},
		{"POST", "/v1/tenants/-/keys", `{"scopes":["invoke"]}`, 200, `"cg_`},
		{"POST", "/v1/tenants/-/keys", `{"scopes":["approve"]}`, 403, "GRANT_EXCEEDED"},
		{"POST", "/v1/tenants/-/keys", `{"scpes":["approve"]}`, 400, ""},
		{"GET", "/v1/tenants/-/keys", "", 200, mine.GetId()},
		{"GET", "/v1/tenants/-/keys/" + mine.GetId(), "", 200, `"active"`},
		{"POST", "/v1/tenants/-/keys/" + mine.GetId() + ":rotate", `{"grace":"1s"}`, 200, `"cg_`},
		{"POST", "/v1/tenants/-/keys/" + mine.GetId() + ":revoke", `{}`, 200, `"revoked"`},
	} {
		if code, body := r.json(t, admin, step.method, step.path, step.body); code != step.status ||
			!strings.Contains(body, step.want) {
			t.Errorf("%s %s: %d %s; want %d, %s", step.method, step.path, code, body, step.status, step.want)
		}
	}
}

// TestNothingTellsASecret: neither an answer, but the one, nor a log.
func TestNothingTellsASecret(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	r.tenant(t, "acme")
	key, credential := r.key(t, "acme", "admin", "invoke")
	explainRotated, err := r.operator.RotateKey(ctx, &capgatepb.RotateKeyRequest{TenantId: "acme", KeyId: key.GetId()})
	check.Must(t, err)
	var outputOnly strings.Builder
	for _, path := range []string{"/v1/tenants", "/v1/tenants/acme", "/v1/tenants/acme/keys",
		"/v1/tenants/acme/keys/" + key.GetId()} {
		_, body := r.port.Ask(t, "GET", path, "")
		outputOnly.WriteString(body)
		_, body = r.json(t, credential, "GET", path, "")
		outputOnly.WriteString(body)
	}
	_, body := r.port.Ask(t, "POST", "/v1/tenants/acme/keys/"+key.GetId()+":revoke", "{}")
	outputOnly.WriteString(body + r.log.String() + r.gateway.Log.String())
	for _, c := range []string{credential, explainRotated.GetCredential()} {
		if secret := c[len(c)-32:]; strings.Contains(outputOnly.String(), secret) {
			t.Errorf("a secret is told")
		}
	}
	for _, word := range []string{"sha256", "hash"} {
		if strings.Contains(outputOnly.String(), word) {
			t.Errorf("%s is told", word)
		}
	}
	if !strings.Contains(r.log.String(), `msg="API key revoked" tenant=acme key=`+key.GetId()+" by=operator") {
		t.Errorf("the log has %s", r.log.String())
	}
}
