package tenant_test

import (
	"context"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// lasting is a credential that stays valid.
type lasting struct{}

func (lasting) StillValid(context.Context) bool { return true }

// unreadable are tenants that cannot be read.
type unreadable struct{ *tenant.Directory }

func (unreadable) Settings(context.Context, string) (*tenant.Settings, *call.Refusal) {
	return nil, &call.Refusal{Kind: call.Unavailable}
}

// TestStillValidWithTheSameCapabilities: what follows a caller ends when its tenant sees other capabilities, is
// disabled or is gone, whatever the credential is. While tenants cannot be read, it continues.
func TestStillValidWithTheSameCapabilities(t *testing.T) {
	t.Parallel()
	of := func(patterns ...string) *tenant.Settings {
		grants, err := tenant.ParseGrants(patterns)
		check.Must(t, err)
		return &tenant.Settings{ID: "acme", Capabilities: grants}
	}
	key, _ := issue("acme", nil, nil)
	closed := of("mail", "weather")
	closed.Disabled = true
	for credential, caller := range map[string]tenant.Identity{
		"a key":             {Key: key.ID, Scopes: key.Scopes},
		"a token":           {Key: "corp", Validity: lasting{}},
		"none":              {},
		"an operator's":     {Key: tenant.OperatorKey + "ann", Operator: true},
		"that of a session": {Key: "corp", Person: &tenant.Person{}},
	} {
		caller.Tenant, caller.Settings = "acme", of("mail", "weather")
		for name, test := range map[string]struct {
			now  *tenant.Settings
			want bool
		}{
			"the same":   {caller.Settings, true},
			"equal ones": {of("mail", "weather"), true},
			"fewer":      {of("mail"), false},
			"more":       {of("mail", "weather", "*"), false},
			"disabled":   {closed, false},
			"gone":       {nil, false},
		} {
			all := map[string]*tenant.Settings{}
			if test.now != nil {
				all["acme"] = test.now
			}
			tenants, keys := tenant.NewDirectory(nil), tenant.NewKeys(nil)
			tenants.Replace(all)
			keys.Replace([]tenant.Key{key}, map[string]*tenant.Settings{"acme": caller.Settings}, nil)
			by := tenant.NewAuthenticators(tenant.Sources{File: keys, Tenants: tenants})
			if by.StillValid(t.Context(), &caller) != test.want {
				t.Errorf("%s, and capabilities that are %s: valid %t", credential, name, !test.want)
			}
			by = tenant.NewAuthenticators(tenant.Sources{File: keys, Tenants: unreadable{tenants}})
			if !by.StillValid(t.Context(), &caller) {
				t.Errorf("%s, and tenants that cannot be read: not valid", credential)
			}
		}
	}
}
