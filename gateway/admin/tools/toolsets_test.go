package tools_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/tools"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
)

// TestToolsetsOfFormerTenants: a tool has changed for the toolsets of tenants that exist, and not for those of tenants
// that do not exist any more, or of an earlier tenant of the same name.
func TestToolsetsOfFormerTenants(t *testing.T) {
	t.Parallel()
	store := gatewaytest.OpenStore(t, "embedded")
	c := catalog.New(catalog.Options{Store: store.Catalog()})
	c.Replace(authored(t, "one"))
	m := toolset.NewManager(store.Stored(toolset.Kind), func(text []byte) (*toolset.Toolset, error) {
		return config.ParseToolset("toolset", text)
	}, nil, slog.New(slog.DiscardHandler))
	for _, r := range []stored.Record{{Name: "all"}, {Tenant: "acme", Name: "kept"}, {Tenant: "globex", Name: "left"},
		{Tenant: "acme", UID: "earlier", Name: "earlier"}} {
		r.Text = []byte(`{"name":"` + r.Name + `","tools":[{"capability":"weather","tool":"other","hash":"` +
			strings.Repeat("01", 32) + `"}]}`)
		check.Must(t, m.Write(t.Context(), &r, ""))
	}
	directory := tenant.NewDirectory(nil)
	directory.Replace(map[string]*tenant.Settings{"acme": {ID: "acme"}})
	p := gatewaytest.ServeOperators(t, tools.New(c, nil, nil, m.Sets(), &tenant.Roster{Directory: directory}, nil))
	status, body := p.Ask(t, "GET", "/v1/tools?query=other", "")
	if status != 200 || !strings.Contains(plain(body), `"toolset_count":2`) {
		t.Errorf("%d %s", status, body)
	}
	status, body = p.Ask(t, "GET", "/v1/capabilities/weather", "")
	for name, want := range map[string]bool{"kept": true, "all": true, "earlier": false, "left": false} {
		if status != 200 || strings.Contains(plain(body), `"name":"`+name+`"`) != want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}
