package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

// seesItsRoles: a person who is admin of one tenant, approver of another and viewer of a third sees the buttons
// of each role for the rows of that tenant only. Sessions are for an admin of all tenants, who ends the
// person's session.
func seesItsRoles(t *testing.T, b *browsertest.Browser, r *peopleRig) {
	r.reload(t, "{issuer: corp, user: una, roles: [admin], tenant: acme}, {issuer: corp, user: una, roles: "+
		"[approver], "+"tenant: globex}, {issuer: corp, user: una, roles: [viewer], tenant: initech}")
	root := newVisitor(t, r.issuer)
	r.issuer.Person(t, map[string]any{"sub": "root", "groups": []string{"ops"}})
	root.signIn(r.admin[0])
	asked := map[string]string{"acme": r.asked(t, r.key)}
	for name, key := range r.others {
		asked[name] = r.asked(t, key)
	}
	for name := range asked {
		root.want("PUT", r.admin[0]+"/v1/policies?force=true", `{"tenant":"`+name+
			`","capability":"caps","tool":"other-`+name+`","policy":"ask"}`, 200, "")
	}
	var saw struct {
		Said, Nav, Rules, Changed, Session, Refused, Ended string
		Buttons, Choose                                    map[string]string
		Found                                              []string
	}
	b.Run(t, "roles", seen{"origins": []string{r.admin[0], r.issuer.URL}, "asked": asked}, &saw)
	const free = ""
	needs := func(role, tenant string) string { return "Needs the role " + role + " for " + tenant }
	for name, want := range map[string]string{
		"rule of acme": free, "rule of globex": needs("admin", "the tenant globex"),
		"rule of initech": needs("admin", "the tenant initech"),
		"keys of acme":    free, "keys of globex": needs("admin", "the tenant globex"),
		"approval of acme": free, "approval of globex": free,
		"always for acme": free, "always for globex": "disabled",
		"tenant of a call, with acme": "acme", "tenant of a call, with initech": "initech",
		"call in acme": free, "call in initech": needs("admin", "the tenant initech"),
	} {
		if got, known := saw.Buttons[name]; !known || got != want {
			t.Errorf("%s: %q; known %+v", name, got, known)
		}
	}
	if got := saw.Buttons["approval of initech"]; got == free {
		t.Error("the approval of a tenant of which the person is a viewer can be answered")
	}
	if len(saw.Choose) != 3 {
		t.Errorf("tenants are offered at %v", saw.Choose)
	}
	if saw.Said != "admin of acme; approver of globex; viewer of initech" || saw.Rules != "of tenants" ||
		slices.ContainsFunc([]string{"Fleets", "Webhooks", "Sessions"},
			func(screen string) bool { return strings.Contains(saw.Nav, screen) }) {
		t.Errorf("got %+v", saw)
	}
	if !strings.Contains(saw.Changed, "block") || !strings.Contains(saw.Session, "una, issuer corp") ||
		!strings.Contains(saw.Refused, "for the tenant acme alone") ||
		!strings.HasPrefix(saw.Ended, "Your session has ended.") || len(saw.Found) > 0 {
		t.Errorf("got %+v", saw)
	}
}
