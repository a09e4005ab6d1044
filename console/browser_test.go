package console_test

import (
	"flag"
	"path/filepath"
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
)

var images = flag.String("images", "", "keep pictures of all screens in this directory")

// paths are all screens: of the console, and of the inbox at the public port.
func paths() []string {
	return []string{"/#/", "/#/inbox", "/#/inbox/apr_B", "/#/inbox/history", "/#/fleets", "/#/tools",
		"/#/tools/mail/send_mail",
		"/#/policies", "/#/policies/candidates", "/#/policies/explain/tenant%3Dacme%26capability%3Dmail%26tool%3Dsend_mail",
		"/#/tenants", "/#/tenants/acme", "/#/tenants/-", "/#/calls", "/#/calls/c-1", "/#/webhooks", "/#/audit", "/#/nowhere",
		"/inbox#/", "/inbox#/acme/apr_A"}
}

func TestInABrowser(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t, "..")
	t.Run("Screens", func(t *testing.T) {
		t.Parallel()
		dir := *images
		if dir != "" {
			var err error
			if dir, err = filepath.Abs(dir); err != nil {
				t.Fatal(err)
			}
		}
		var found []string
		b.Run(t, "screens", map[string]any{"origins": []string{startFake(t, nil)}, "paths": paths(),
			"dialogs": map[string]string{"/#/inbox": "Approve", "/#/inbox/apr_B": "Deny", "/#/fleets": "Drain",
				"/#/policies": "Set a rule", "/#/tenants": "Create a tenant", "/#/tenants/acme": "Create a key",
				"/#/webhooks": "Retry", "/#/tools/mail/send_mail": "Accept this version"}, "images": dir}, &found)
		for _, f := range found {
			t.Error(f)
		}
	})
	t.Run("SignIn", func(t *testing.T) {
		t.Parallel()
		var saw []string
		b.Run(t, "signin", map[string]any{"origins": []string{startStranger(t)}}, &saw)
		want := []string{"/signin?next=%2F%23%2Finbox%2Fapr_A", "/inbox/signin?next=%2Finbox%23%2Facme%2Fapr_A"}
		if !slices.Equal(saw, want) {
			t.Errorf("%q", saw)
		}
	})
	t.Run("Letters", func(t *testing.T) {
		t.Parallel()
		var saw []string
		b.Run(t, "letters", map[string]any{"origins": []string{startFake(t, nil)}}, &saw)
		if want := []string{"/v1/webhooks/dead/evt_51:retry", "true", "Needs the role operator"}; !slices.Equal(saw, want) {
			t.Errorf("%q", saw)
		}
	})
	t.Run("Hostile", func(t *testing.T) {
		t.Parallel()
		hostile(t, b)
	})
}
