package tenants_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/admin/tenants"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// TestOperatorOfOneTenant: it sees its tenant, makes its keys and revokes them, and does nothing to another one.
func TestOperatorOfOneTenant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tenant(t, "acme")
	r.tenant(t, "globex")
	own, _ := r.key(t, "acme")
	theirs, _ := r.key(t, "globex")
	web := gatewaytest.ServeGuarded(t, gatewaytest.Operator{Roles: operator.Admin, Tenants: []string{"acme"}},
		r.service.Operators())
	for _, test := range []struct {
		line, body string
		status     int
		has        string
	}{
		{"GET /v1/tenants", "", 200, `"id":"acme"`},
		{"GET /v1/tenants?query=ACM", "", 200, `"id":"acme"`},
		{"GET /v1/tenants?query=glob", "", 200, `"tenants":[]`},
		{"GET /v1/tenants/-/keys?query=" + theirs.GetId(), "", 200, `"keys":[]`},
		{"GET /v1/tenants/-/keys?query=" + own.GetId()[4:], "", 200, own.GetId()},
		{"GET /v1/tenants/acme", "", 200, `"id":"acme"`},
		{"GET /v1/tenants/globex", "", 403, "OPERATOR_TENANT"},
		{"GET /v1/tenants/globex/keys", "", 403, "OPERATOR_TENANT"},
		{"GET /v1/tenants/globex/keys/" + theirs.GetId(), "", 403, "OPERATOR_TENANT"},
		{"GET /v1/tenants/acme/keys/" + theirs.GetId(), "", 404, "KEY_UNKNOWN"},
		{"POST /v1/tenants/globex/keys", `{}`, 403, "OPERATOR_TENANT"},
		{"POST /v1/tenants/globex/keys/" + theirs.GetId() + ":revoke", `{}`, 403, "OPERATOR_TENANT"},
		{"POST /v1/tenants/acme/keys/" + theirs.GetId() + ":revoke", `{}`, 404, "KEY_UNKNOWN"},
		{"POST /v1/tenants", `{"id":"new"}`, 403, "OPERATOR_TENANT"},
		{"PATCH /v1/tenants/acme", `{"capabilities":["*"]}`, 403, "OPERATOR_TENANT"},
		{"DELETE /v1/tenants/acme", "", 403, "OPERATOR_TENANT"},
		{"POST /v1/tenants/acme/keys", `{"name":"one"}`, 200, `"created_by":"ann"`},
		{"POST /v1/tenants/acme/keys/" + own.GetId() + ":revoke", `{}`, 200, "revoked"},
	} {
		method, path, _ := strings.Cut(test.line, " ")
		if status, body := web.Ask(t, method, path, test.body); status != test.status ||
			!strings.Contains(body, test.has) ||
			strings.Contains(body, `"globex"`) {
			t.Errorf("%s: %d %s, want %d %s", test.line, status, body, test.status, test.has)
		}
	}
}

// former is a store in which a tenant's keys outlast it: they are of another tenant of the same name.
type former struct{ tenants.Store }

func (s former) FindKey(ctx context.Context, id string) (*tenant.Key, error) {
	k, err := s.Store.FindKey(ctx, id)
	if k != nil {
		k.UID = "that of the former tenant"
	}
	return k, err
}

// TestKeyOfAFormerTenant: a key of a tenant that was deleted is none of a new one of the same name.
func TestKeyOfAFormerTenant(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s tenants.Store) tenants.Store { return former{s} })
	r.tenant(t, "acme")
	key, _ := r.key(t, "acme")
	_, err := r.operator.GetKey(t.Context(), &capgatepb.GetKeyRequest{TenantId: "acme", KeyId: key.GetId()})
	expect(t, "get", err, codes.NotFound, "KEY_UNKNOWN")
	_, err = r.operator.RevokeKey(t.Context(), &capgatepb.RevokeKeyRequest{TenantId: "acme", KeyId: key.GetId()})
	expect(t, "revoke", err, codes.NotFound, "KEY_UNKNOWN")
}

// away is a store that does not respond. Its error has an address.
type away struct{ tenants.Store }

var errAway = errors.New("dial tcp 10.0.0.7:6379: connection refused")

func (away) FindTenant(context.Context, string) (*tenant.Record, error) { return nil, errAway }

// TestErrorsOfTheStore: operators see them, and callers do not.
func TestErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s tenants.Store) tenants.Store { return away{s} })
	check.Must(t, r.store.CreateTenant(t.Context(), &tenant.Record{ID: "acme", UID: "a"}))
	id, secret := tenant.NewCredential()
	if err := r.store.CreateKey(t.Context(), &tenant.Key{ID: id, Tenant: "acme", Hash: tenant.HashOf(secret, pepper),
		Scopes: tenant.Admin, KeyHistory: tenant.KeyHistory{UID: "a"}}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		err   error
		shown bool
	}{
		"an operator": {second(r.operator.GetTenant(t.Context(), &capgatepb.GetTenantRequest{TenantId: "acme"})), true},
		"a caller": {second(r.caller.GetTenant(showing(t, tenant.Credential(id, secret)),
			&capgatepb.GetTenantRequest{TenantId: "acme"})), false},
	} {
		expect(t, name, test.err, codes.Unavailable, "TENANTS_UNAVAILABLE")
		if strings.Contains(test.err.Error(), "10.0.0.7") != test.shown {
			t.Errorf("%s sees %v", name, test.err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
