package operator_test

import (
	"testing"

	"github.com/capgate/capgate/internal/operator"
)

// TestPeople: entries add up, those for all tenants precede, and none is another issuer's.
func TestPeople(t *testing.T) {
	t.Parallel()
	people := operator.People{
		{Issuer: "corp", User: "ann", Roles: operator.View},
		{Issuer: "corp", Group: "ops", Roles: operator.Operate},
		{Issuer: "corp", Group: "acme", Roles: operator.Approve, Tenant: "acme"},
		{Issuer: "corp", Group: "globex", Roles: operator.Admin, Tenant: "globex"},
		{Issuer: "corp", User: "dan", Roles: operator.Admin, Tenant: "acme"},
		{Issuer: "other", User: "ann", Roles: operator.Admin},
		{Issuer: "corp", Roles: operator.Admin}, // no entry of the configuration names nobody
	}
	for name, test := range map[string]struct {
		issuer, user string
		groups       []string
		roles        operator.Roles
		tenant       string
	}{
		"a user":                    {"corp", "ann", nil, operator.View, ""},
		"a user and a group":        {"corp", "ann", []string{"x", "ops"}, operator.View | operator.Operate, ""},
		"a group of a tenant":       {"corp", "bob", []string{"acme"}, operator.Approve, "acme"},
		"all tenants precede":       {"corp", "ann", []string{"acme"}, operator.View, ""},
		"the first of two tenants":  {"corp", "bob", []string{"globex", "acme"}, operator.Approve, "acme"},
		"two entries of one tenant": {"corp", "dan", []string{"acme"}, operator.Approve | operator.Admin, "acme"},
		"another issuer":            {"other", "ann", []string{"ops"}, operator.Admin, ""},
		"nobody":                    {"corp", "eve", []string{"OPS", "ann"}, 0, ""},
		"no user":                   {"corp", "", nil, 0, ""},
		"no issuer":                 {"", "ann", []string{"ops"}, 0, ""},
	} {
		if roles, tenant := people.RolesOf(test.issuer, test.user, test.groups); roles != test.roles || tenant != test.tenant {
			t.Errorf("%s: %v, %q", name, roles, tenant)
		}
	}
	if !people.Named("ops") || people.Named("ann") {
		t.Error("named groups")
	}
}
