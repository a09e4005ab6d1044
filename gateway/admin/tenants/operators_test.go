package tenants_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin/tenants"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestAKeyFromItsMakingToItsEnd: operators' changes apply to the next call.
func TestAKeyFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	made := r.tenant(t, "acme")
	if made.GetEtag() != "1" || made.GetSource() != "redis" || made.GetUpdatedBy() != "operator" ||
		time.Since(made.GetCreateTime().AsTime()).Abs() > time.Hour {
		t.Errorf("%v", made)
	}
	key, credential := r.key(t, "acme")
	if key.GetState() != "active" || key.GetCreatedBy() != "operator" ||
		!slices.Equal(key.GetScopes(), []string{"invoke", "read"}) ||
		!strings.HasPrefix(credential, "cg_"+key.GetId()+"_") {
		t.Errorf("%v", key)
	}
	step := func(what, want string, credentials ...string) {
		t.Helper()
		for _, c := range credentials {
			if got := r.invoke(t, c); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
	}
	update := func(mask string, to *capgatepb.Tenant) {
		t.Helper()
		to.Id = "acme"
		if _, err := r.operator.UpdateTenant(ctx,
			&capgatepb.UpdateTenantRequest{Tenant: to,
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{mask}}}); err != nil {
			t.Fatal(err)
		}
	}
	step("made", "", credential)
	update("disabled", &capgatepb.Tenant{Disabled: true})
	step("disabled", "TENANT_DISABLED", credential)
	update("*", &capgatepb.Tenant{Capabilities: []string{"other-*"}})
	step("without the capability", "CAPABILITY_UNKNOWN", credential)
	update("capabilities", &capgatepb.Tenant{Capabilities: []string{"ca*"}})
	step("with it", "", credential)

	explainRotated, err := r.operator.RotateKey(ctx, &capgatepb.RotateKeyRequest{TenantId: "acme", KeyId: key.GetId()})
	check.Must(t, err)
	step("rotated", "", credential, explainRotated.GetCredential())
	got, err := r.operator.GetKey(ctx, &capgatepb.GetKeyRequest{TenantId: "acme", KeyId: key.GetId()})
	if old := got.GetKey(); err != nil || old.GetState() != "replaced" ||
		old.GetUpdateTime().AsTime().Before(explainRotated.GetKey().GetCreateTime().AsTime()) ||
		old.GetReplacedBy() != explainRotated.GetKey().GetId() ||
		(time.Until(old.GetEndTime().AsTime())-aDay).Abs() > time.Hour ||
		explainRotated.GetKey().GetReplaces() != key.GetId() {
		t.Errorf("%v, %v; explainRotated %+v", old, err, explainRotated)
	}
	_, err = r.operator.RotateKey(ctx, &capgatepb.RotateKeyRequest{TenantId: "acme", KeyId: key.GetId()})
	expect(t, "again", err, codes.FailedPrecondition, "KEY_ROTATED")
	second, err := r.operator.RotateKey(ctx,
		&capgatepb.RotateKeyRequest{TenantId: "acme", KeyId: explainRotated.GetKey().GetId(), Grace: durationpb.New(0)})
	check.Must(t, err)
	step("without grace", "CREDENTIAL_EXPIRED", explainRotated.GetCredential())
	step("the others", "", credential, second.GetCredential())
	for range 2 {
		gone, err := r.operator.RevokeKey(ctx, &capgatepb.RevokeKeyRequest{TenantId: "acme", KeyId: key.GetId()})
		if err != nil || gone.GetKey().GetState() != "revoked" || gone.GetKey().GetRevokeTime() == nil ||
			!proto.Equal(gone.GetKey().GetUpdateTime(), gone.GetKey().GetRevokeTime()) {
			t.Errorf("%v, %v", gone, err)
		}
	}
	step("revoked", "CREDENTIAL_INVALID", credential)
	_, err = r.operator.RotateKey(ctx, &capgatepb.RotateKeyRequest{TenantId: "acme", KeyId: key.GetId()})
	expect(t, "one that is revoked", err, codes.FailedPrecondition, "KEY_OVER")
	_, err = r.operator.DeleteTenant(ctx, &capgatepb.DeleteTenantRequest{TenantId: "acme"})
	expect(t, "with keys", err, codes.FailedPrecondition, "TENANT_HAS_KEYS")
	if _, err = r.operator.DeleteTenant(ctx, &capgatepb.DeleteTenantRequest{TenantId: "acme",
		Force: true}); err != nil {
		t.Error(err)
	}
	step("no tenant", "CREDENTIAL_INVALID", second.GetCredential())
	r.tenant(t, "acme")
	step("another tenant", "CREDENTIAL_INVALID", second.GetCredential())
	_, err = r.operator.GetKey(ctx, &capgatepb.GetKeyRequest{TenantId: "acme", KeyId: second.GetKey().GetId()})
	expect(t, "a key of the one before", err, codes.NotFound, "KEY_UNKNOWN")
}

// TestTheFileGoesFirst: tenants and keys of the file are shown, and cannot be changed.
func TestTheFileGoesFirst(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	_, err := r.operator.CreateTenant(ctx, &capgatepb.CreateTenantRequest{Tenant: &capgatepb.Tenant{Id: "filed"}})
	expect(t, "made", err, codes.AlreadyExists, "TENANT_EXISTS")
	_, err = r.operator.UpdateTenant(ctx,
		&capgatepb.UpdateTenantRequest{Tenant: &capgatepb.Tenant{Id: "filed", Disabled: true}})
	expect(t, "changed", err, codes.FailedPrecondition, "TENANT_IN_FILE")
	_, err = r.operator.DeleteTenant(ctx, &capgatepb.DeleteTenantRequest{TenantId: "filed", Force: true})
	expect(t, "deleted", err, codes.FailedPrecondition, "TENANT_IN_FILE")
	_, err = r.operator.RevokeKey(ctx, &capgatepb.RevokeKeyRequest{TenantId: "filed", KeyId: r.filed})
	expect(t, "key revoked", err, codes.FailedPrecondition, "KEY_IN_FILE")
	key, credential := r.key(t, "filed")
	if got := r.invoke(t, credential); got != "" {
		t.Errorf("a key in Redis: %s", got)
	}
	list, err := r.operator.ListKeys(ctx, &capgatepb.ListKeysRequest{TenantId: "filed"})
	sources := map[string]string{}
	for _, k := range list.GetKeys() {
		sources[k.GetId()] = k.GetSource()
		if k.GetResourceName() != "tenants/filed/keys/"+k.GetId() {
			t.Errorf("%s is called %s", k.GetId(), k.GetResourceName())
		}
	}
	if err != nil || len(sources) != 2 || sources[key.GetId()] != "redis" || sources[r.filed] != "file" {
		t.Errorf("%v, %v", sources, err)
	}
}

// TestListsAreWhole: with pages of any size, whichever is kept where.
func TestListsAreWhole(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	for _, id := range []string{"a", "e", "g", "z", "filed1"} {
		r.tenant(t, id)
	}
	for size := int32(1); size < 8; size++ {
		var ids []string
		for token, first := "", true; first || token != ""; first = false {
			page, err := r.operator.ListTenants(ctx, &capgatepb.ListTenantsRequest{PageSize: size, PageToken: token})
			if err != nil || len(page.GetTenants()) > int(size) {
				t.Fatal(page, err)
			}
			for _, of := range page.GetTenants() {
				ids = append(ids, of.GetId())
				if of.GetResourceName() != "tenants/"+of.GetId() {
					t.Errorf("%s is called %s", of.GetId(), of.GetResourceName())
				}
			}
			token = page.GetNextPageToken()
		}
		if !slices.Equal(ids, []string{"a", "e", "filed", "filed1", "g", "z"}) {
			t.Errorf("pages of %d: %v", size, ids)
		}
	}
}

// TestSlips: each field is looked at, and named.
func TestSlips(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	r.tenant(t, "acme")
	key, _ := r.key(t, "acme")
	long := strings.Repeat("a", 257)
	for want, of := range map[string]*capgatepb.Tenant{
		"tenant.id":           {Id: "a b"},
		"tenant.name":         {Id: "x", Name: long},
		"tenant.capabilities": {Id: "x", Capabilities: []string{"["}},
		"tenant.limits":       {Id: "x", Limits: &capgatepb.Limits{CallsPerSecond: -1}},
	} {
		_, err := r.operator.CreateTenant(ctx, &capgatepb.CreateTenantRequest{Tenant: of})
		expect(t, want, err, codes.InvalidArgument, "TENANT_INVALID")
		if clienttest.Metadata(err, "field") != want {
			t.Errorf("%s: the field is %s", want, clienttest.Metadata(err, "field"))
		}
	}
	for want, of := range map[string]*capgatepb.Key{
		"key.id":          {Id: "mine"},
		"key.name":        {Name: "a\xff"[:1] + long},
		"key.scopes":      {Scopes: []string{"root"}},
		"key.asserts":     {Asserts: []string{"tenant"}},
		"key.expire_time": {ExpireTime: timestamppb.New(time.Now().Add(-time.Hour))},
	} {
		_, err := r.operator.CreateKey(ctx, &capgatepb.CreateKeyRequest{TenantId: "acme", Key: of})
		if expect(t, want, err, codes.InvalidArgument, "TENANT_INVALID"); clienttest.Metadata(err, "field") != want {
			t.Errorf("%s: the field is %s", want, clienttest.Metadata(err, "field"))
		}
	}
	for _, mask := range []string{"nmae", "limits.calls", "name.x", "limits.each.per", "etagg"} {
		_, err := r.operator.UpdateTenant(ctx,
			&capgatepb.UpdateTenantRequest{Tenant: &capgatepb.Tenant{Id: "acme"},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{mask}}})
		expect(t, mask, err, codes.InvalidArgument, "TENANT_INVALID")
	}
	_, err := r.operator.RotateKey(ctx,
		&capgatepb.RotateKeyRequest{TenantId: "acme", KeyId: key.GetId(), Grace: durationpb.New(-1)})
	expect(t, "grace", err, codes.InvalidArgument, "TENANT_INVALID")
	_, err = r.operator.ListKeys(ctx, &capgatepb.ListKeysRequest{TenantId: "acme", PageSize: 1001})
	expect(t, "page_size", err, codes.InvalidArgument, "TENANT_INVALID")
	for _, id := range []string{"", "nobody", "-", "a:b{}"} {
		_, err = r.operator.GetTenant(ctx, &capgatepb.GetTenantRequest{TenantId: id})
		expect(t, "tenant "+id, err, codes.NotFound, "TENANT_UNKNOWN")
		_, err = r.operator.GetKey(ctx, &capgatepb.GetKeyRequest{TenantId: "acme", KeyId: id})
		expect(t, "key "+id, err, codes.NotFound, "KEY_UNKNOWN")
	}
	_, err = r.operator.UpdateTenant(ctx,
		&capgatepb.UpdateTenantRequest{Tenant: &capgatepb.Tenant{Id: "acme", Name: "x", Etag: "7"}})
	expect(t, "an old etag", err, codes.Aborted, "TENANT_CHANGED")
	for _, etag := range []string{"7", "x", "0"} {
		_, err = r.operator.DeleteTenant(ctx, &capgatepb.DeleteTenantRequest{TenantId: "acme", Etag: etag})
		expect(t, "etag "+etag, err, codes.Aborted, "TENANT_CHANGED")
	}
}

// TestLimitsThatAreThere: existing limits that would be rejected now do not prevent other changes.
func TestLimitsThatAreThere(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	if err := r.store.CreateTenant(ctx,
		&tenant.Record{ID: "old", UID: "u",
			Limits: &tenant.Limits{Bounds: tenant.Bounds{PerDay: 5, PerMonth: 4}}}); err != nil {
		t.Fatal(err)
	}
	change := func(what string, to *capgatepb.Tenant) error {
		to.Id = "old"
		_, err := r.operator.UpdateTenant(ctx,
			&capgatepb.UpdateTenantRequest{Tenant: to, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{what}}})
		return err
	}
	if err := change("disabled", &capgatepb.Tenant{Disabled: true}); err != nil {
		t.Error(err)
	}
	expect(t, "other limits", change("limits.concurrent",
		&capgatepb.Tenant{Limits: &capgatepb.Limits{Concurrent: 1}}), codes.InvalidArgument, "TENANT_INVALID")
	if err := change("limits.per_month", &capgatepb.Tenant{Limits: &capgatepb.Limits{PerMonth: 5}}); err != nil {
		t.Error(err)
	}
}

// TestJSON is how curl changes tenants.
func TestJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/tenants", `{"id":"acme","name":"Acme","capabilities":["*"],"limits":{"calls_per_second":5,` +
			`"each":[{"per":"user","concurrent":2}]}}`, 200, `"etag":"1"`},
		{"POST", "/v1/tenants", `{"id":"acme"}`, 409, "TENANT_EXISTS"},
		{"POST", "/v1/tenants", `{"id":"x","capabilites":["*"]}`, 400, "INVALID_BODY"},
		{"PATCH", "/v1/tenants/acme", `{"limits":{"burst":9}}`, 200,
			`"limits":{"calls_per_second":5,"burst":9,"each":[{"per":"user","concurrent":2}]}`},
		{"PATCH", "/v1/tenants/acme", `{"limits":{"calls_per_second":0}}`, 400, "burst has no effect"},
		{"PATCH", "/v1/tenants/acme", `{"limits":{"per_day":5,"per_month":4}}`, 400,
			"tenant.limits: per_month is 4, which is less than per_day, 5"},
		{"PATCH", "/v1/tenants/acme?update_mask=limits", `{}`, 200, `"etag":"3"`},
		{"GET", "/v1/tenants/acme", "", 200, `"name":"Acme"`},
		{"PATCH", "/v1/tenants/acme", `{"name":"x","etag":"1"}`, 409, "TENANT_CHANGED"},
		{"GET", "/v1/tenants?page_size=1", "", 200, `"next_page_token":`},
		{"POST", "/v1/tenants/acme/keys", `{"scopes":["admin"],"name":"Ann's"}`, 200, `"credential":"cg_`},
		{"POST", "/v1/tenants/acme/keys", `{"scope":["admin"]}`, 400, "INVALID_BODY"},
		{"GET", "/v1/tenants/acme/keys", "", 200, `"name":"Ann's"`},
		{"POST", "/v1/tenants/acme/keys/abcdefghijklmnop:rotate", `{"grace":"60s"}`, 404, "KEY_UNKNOWN"},
		{"POST", "/v1/tenants/acme/keys/abcdefghijklmnop:revoke", `{}`, 404, "KEY_UNKNOWN"},
		{"DELETE", "/v1/tenants/acme", "", 400, "TENANT_HAS_KEYS"},
		{"DELETE", "/v1/tenants/acme?force=true", "", 200, "{}"},
		{"GET", "/v1/tenants/acme", "", 404, "TENANT_UNKNOWN"},
	} {
		code, body := r.port.Ask(t, step.method, step.path, step.body)
		if compact := strings.ReplaceAll(body, `, "`, `,"`); code != step.status ||
			!strings.Contains(strings.ReplaceAll(compact, `": `, `":`), step.want) {
			t.Errorf("%s %s: %d %s; want %d, %s", step.method, step.path, code, body, step.status, step.want)
		}
	}
}

// TestWithoutAStore: tenants and keys of the file are listed.
func TestWithoutAStore(t *testing.T) {
	t.Parallel()
	directory := tenant.NewDirectory(nil)
	directory.Replace(map[string]*tenant.Settings{"filed": {ID: "filed"}})
	port := gatewaytest.ServeOperators(t,
		tenants.New(tenants.Config{Tenants: directory, Keys: tenant.NewKeys(nil)}).Operators())
	client, ctx := capgatepb.NewTenantsClient(port.Conn), t.Context()
	if all, err := client.ListTenants(ctx, &capgatepb.ListTenantsRequest{}); err != nil || len(all.GetTenants()) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := client.ListKeys(ctx, &capgatepb.ListKeysRequest{TenantId: "filed"}); err != nil ||
		len(all.GetKeys()) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := client.ListKeys(ctx, &capgatepb.ListKeysRequest{TenantId: tenant.All}); err != nil ||
		len(all.GetKeys()) != 0 {
		t.Errorf("those of all: %v, %v", all, err)
	}
	_, err := client.GetTenant(ctx, &capgatepb.GetTenantRequest{TenantId: "acme"})
	expect(t, "another", err, codes.NotFound, "TENANT_UNKNOWN")
	_, err = client.CreateTenant(ctx, &capgatepb.CreateTenantRequest{Tenant: &capgatepb.Tenant{Id: "acme"}})
	expect(t, "made", err, codes.FailedPrecondition, "TENANTS_OFF")
	_, err = client.CreateKey(ctx, &capgatepb.CreateKeyRequest{TenantId: "filed"})
	expect(t, "a key", err, codes.FailedPrecondition, "TENANTS_OFF")
	_, err = client.DeleteTenant(ctx, &capgatepb.DeleteTenantRequest{TenantId: "acme"})
	expect(t, "deleted", err, codes.FailedPrecondition, "TENANTS_OFF")
}
