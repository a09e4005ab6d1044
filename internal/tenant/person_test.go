package tenant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/tenant"
)

// TestGroupsAreBounded: groups beyond the bound, and texts that are no names, give no permission.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]string, 0, tenant.MaxGroups+1)
	for n := range tenant.MaxGroups + 1 {
		many = append(many, fmt.Sprintf("group-%03d", n))
	}
	for name, test := range map[string]struct {
		groups, want []string
		left         int
	}{
		"none":         {nil, nil, 0},
		"sorted, once": {[]string{"b", "a", "b"}, []string{"a", "b"}, 0},
		"no names":     {[]string{"", "a\nb", "a\u202eb", strings.Repeat("x", 257), "ok"}, []string{"ok"}, 4},
		"too many":     {many, many[:tenant.MaxGroups], 1},
		"too long": {[]string{strings.Repeat("a", 256), "b", strings.Repeat("c", 257)},
			[]string{strings.Repeat("a", 256), "b"}, 1},
	} {
		p := tenant.NewPerson("corp", test.groups)
		if !slices.Equal(p.Groups, test.want) || p.Left != test.left || p.Issuer != "corp" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestAnAssertedUserHasNoGroups: the groups of a token are those of its own user.
func TestAnAssertedUserHasNoGroups(t *testing.T) {
	t.Parallel()
	who := tenant.Identity{Tenant: "acme", User: "ann", Person: tenant.NewPerson("corp", []string{"leads"})}
	for user, groups := range map[string]int{"": 1, "ann": 1, "bob": 0} {
		got, refusal := who.Assert(tenant.Credentials{User: user}, tenant.User)
		if refusal != nil || len(got.Groups()) != groups {
			t.Errorf("%q: %+v, %v", user, got, refusal)
		}
	}
	if got, _ := who.Assert(tenant.Credentials{User: "bob"}, 0); got.User != "ann" || len(got.Groups()) != 1 {
		t.Errorf("%+v", got)
	}
}
