package operator_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
)

// TestPeople: all entries that match add up, by tenant, and none is another issuer's.
func TestPeople(t *testing.T) {
	t.Parallel()
	people := operator.People{
		{Issuer: "corp", User: "ann", Roles: operator.View},
		{Issuer: "corp", Group: "ops", Roles: operator.Operate},
		{Issuer: "corp", Group: "acme", Roles: operator.Approve, Tenant: "acme"},
		{Issuer: "corp", Group: "globex", Roles: operator.Admin, Tenant: "globex"},
		{Issuer: "corp", User: "dan", Roles: operator.Admin, Tenant: "acme"},
		{Issuer: "corp", User: "fay", Group: "ops", Roles: operator.Admin, Tenant: "acme"},
		{Issuer: "other", User: "ann", Roles: operator.Admin},
		{Issuer: "corp", Roles: operator.Admin}, // no entry of the configuration has an empty name
	}
	for name, test := range map[string]struct {
		issuer, user string
		groups       []string
		want         string
	}{
		"a user":                    {"corp", "ann", nil, "viewer"},
		"a user and a group":        {"corp", "ann", []string{"x", "ops"}, "viewer,operator"},
		"a group of a tenant":       {"corp", "bob", []string{"acme"}, "; acme: approver"},
		"all tenants and one":       {"corp", "ann", []string{"acme"}, "viewer; acme: approver"},
		"two tenants":               {"corp", "bob", []string{"globex", "acme"}, "; acme: approver; globex: admin"},
		"two entries of one tenant": {"corp", "dan", []string{"acme"}, "; acme: approver,admin"},
		"another issuer":            {"other", "ann", []string{"ops"}, "admin"},
		"a user in a group":         {"corp", "fay", []string{"ops"}, "operator; acme: admin"},
		"a user without the group":  {"corp", "fay", nil, ""},
		"another user of the group": {"corp", "gil", []string{"ops"}, "operator"},
		"nobody":                    {"corp", "eve", []string{"OPS", "ann"}, ""},
		"no user":                   {"corp", "", nil, ""},
		"no issuer":                 {"", "ann", []string{"ops"}, ""},
	} {
		who := &operator.Identity{}
		if people.Grant(who, test.issuer, test.user, test.groups); who.Rights() != test.want {
			t.Errorf("%s: %q", name, who.Rights())
		}
	}
	for name, want := range map[string]bool{"ops": true, "ann": false} {
		if people.Named(name) != want {
			t.Errorf("%s is a named group: %t", name, !want)
		}
	}
}

// TestRoles: the role admin includes all, operator and approver include viewer, and none includes another.
func TestRoles(t *testing.T) {
	t.Parallel()
	all := []operator.Roles{operator.View, operator.Operate, operator.Approve, operator.Admin}
	for i, want := range [][]bool{{true, false, false, false}, {true, true, false, false}, {true, false, true, false},
		{true, true, true, true}} {
		for j, role := range all {
			if all[i].Include(role) != want[j] {
				t.Errorf("%s includes %s: %t", all[i], role, !want[j])
			}
		}
	}
}

// TestNames: what authenticated an operator names it; what a request says of itself counts where nothing did.
func TestNames(t *testing.T) {
	t.Parallel()
	none, insecure := t.Context(), operator.NewContext(t.Context(), &operator.Identity{Name: "x",
		Via: operator.ViaInsecure})
	ann := operator.NewContext(t.Context(), &operator.Identity{Name: "ann", Via: operator.ViaKey})
	for _, test := range []struct {
		ctx               context.Context
		said, want, known string
	}{{none, "", "operator", ""}, {none, "bob", "bob", ""}, {insecure, "bob", "bob", ""},
		{insecure, "", "operator", ""},
		{ann, "bob", "ann", "ann"}} {
		if got, known := operator.NameOf(test.ctx, test.said), operator.Authenticated(test.ctx); got != test.want ||
			known != test.known {
			t.Errorf("%q: %q, authenticated %q; want %q, %q", test.said, got, known, test.want, test.known)
		}
	}
}

// TestTenantsOfARole: a request sees the tenants for which its operator has the role that it needs.
func TestTenantsOfARole(t *testing.T) {
	t.Parallel()
	mixed, some := &operator.Identity{}, &operator.Identity{}
	mixed.Grant("", operator.View)
	mixed.Grant("acme", operator.Approve)
	some.Grant("globex", operator.Admin)
	some.Grant("acme", operator.View)
	one := some.For(operator.Admin)
	for name, test := range map[string]struct {
		who    *operator.Identity
		named  string
		narrow string // of one tenant; a reason in capitals: it is refused
		some   []string
	}{
		"no operator":             {nil, "", "", nil},
		"no operator, one tenant": {nil, "acme", "acme", []string{"acme"}},
		"all":                     {mixed.For(operator.View), "-", "-", nil},
		"all, one tenant":         {mixed.For(operator.View), "x", "x", []string{"x"}},
		"a role for one":          {mixed.For(operator.Approve), "", "acme", []string{"acme"}},
		"a role for one, another": {mixed.For(operator.Approve), "globex", "OPERATOR_TENANT", nil},
		"several":                 {some.For(operator.View), "", "TENANT_REQUIRED", []string{"acme", "globex"}},
		"several, one":            {some.For(operator.View), "globex", "globex", []string{"globex"}},
		"several, another":        {some.For(operator.View), "x", "OPERATOR_TENANT", nil},
		"the only one":            {one, "-", "globex", []string{"globex"}},
		"without the role":        {one, "acme", "OPERATOR_TENANT", nil},
	} {
		got, err := test.who.Narrow(test.named)
		var refusal *call.Refusal
		if errors.As(err, &refusal) {
			got = refusal.Reason
		}
		if got != test.narrow {
			t.Errorf("%s: %q", name, got)
		}
		if got, err := test.who.Select(test.named); !slices.Equal(got, test.some) ||
			(got == nil) != (test.some == nil) || (err != nil) != (test.narrow == "OPERATOR_TENANT") {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if admin, acme := mixed.For(operator.Admin).Any(), one.In("acme"); admin != 0 || acme != 0 {
		t.Errorf("roles that nobody gave: of admin %v, in acme %v", admin, acme)
	}
	if got := mixed.In("acme"); !got.Include(operator.Approve) {
		t.Errorf("the roles in acme do not include approve: %v", got)
	}
	if several, single := some.Only(), one.Only(); several != "" || single != "globex" {
		t.Errorf("the only tenant of several is %q, of one is %q", several, single)
	}
}
