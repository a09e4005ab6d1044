package console_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
)

var images = flag.String("images", "", "keep pictures of all screens in this directory")

// paths are all screens: of the console, and of the inbox at the public port.
func paths() []string {
	return []string{"/#/", "/#/inbox", "/#/inbox/apr_B", "/#/inbox/history", "/#/fleets",
		"/#/fleets/mail?span=24h", "/#/tools", "/#/tools/mail", "/#/tools/mail/send_mail", "/#/toolsets",
		"/#/toolsets/support/acme", "/#/policies",
		"/#/policies/candidates", "/#/policies/matrix",
		"/#/policies/explain",
		"/#/policies/explain/tenant%3Dacme%26capability%3Dmail%26tool%3Dsend_mail",
		"/#/tenants", "/#/tenants/acme", "/#/tenants/-", "/#/calls", "/#/calls/c-1", "/#/webhooks", "/#/audit",
		"/#/sessions", "/#/connect", "/#/nowhere", "/inbox#/", "/inbox#/history", "/inbox#/acme/apr_A"}
}

// dialogs are the questions of screens: a path, and the name of the button that asks.
var dialogs = [][2]string{{"/#/inbox", "Approve"}, {"/#/inbox/apr_B", "Deny"}, {"/#/fleets", "Drain"},
	{"/#/tools", "Discover"}, {"/#/tools/mail/send_mail", "Accept this version"}, {"/#/policies", "Set a rule"},
	{"/#/toolsets", "Set a toolset"}, {"/#/toolsets", "Delete"}, {"/#/toolsets/support/acme", "Change"},
	{"/#/toolsets/support/acme", "Accept this version"},
	{"/#/policies", "Change"}, {"/#/policies", "Delete"}, {"/#/policies/candidates", "Put in effect"},
	{"/#/tenants", "Create a tenant"}, {"/#/tenants/acme", "Create a key"}, {"/#/tenants/acme", "Rotate"},
	{"/#/tenants/acme", "Revoke"}, {"/#/tenants/acme", "Change"}, {"/#/tenants/acme", "Disable"},
	{"/#/tenants/acme", "Delete"}, {"/#/webhooks", "Retry"}, {"/#/sessions", "End"}, {"/#/sessions", "End all"},
	{"/#/webhooks", "Retry all"}, {"/inbox#/", "Approve"}}

var route = regexp.MustCompile(`\{ path: "([^"]*)", title: `)

// TestAllScreensAreLookedAt: a screen of the navigation is among those that the tests look at.
func TestAllScreensAreLookedAt(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("src/screens/routes.tsx")
	check.Must(t, err)
	all := route.FindAllStringSubmatch(string(text), -1)
	if len(all) < 9 || len(all) != strings.Count(string(text), "screen: ")-1 { // one is of the interface
		t.Errorf("%d screens in %s", len(all), text)
	}
	for _, r := range all {
		if !slices.Contains(paths(), "/#/"+r[1]) {
			t.Errorf("no test looks at %q", r[1])
		}
	}
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
			"dialogs": dialogs, "images": dir}, &found)
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
		want := []string{"/v1/webhooks/dead/evt_51:retry", "true", "Needs the role operator",
			"There are no dead letters. All notices to slack-ops, mail arrived.",
			"No notices are configured New approvals appear only in the inbox. To send notices, set " +
				"approvals.notices in the configuration: how notices are set up.",
			"https://github.com/capgate/capgate/blob/main/docs/use/approvals.md#notices"}
		if !slices.Equal(saw, want) {
			t.Errorf("%q", saw)
		}
	})
	t.Run("Long", func(t *testing.T) {
		t.Parallel()
		long(t, b)
	})
	t.Run("Inbox", func(t *testing.T) {
		t.Parallel()
		inbox(t, b)
	})
	t.Run("History", func(t *testing.T) {
		t.Parallel()
		pastApprovals(t, b)
	})
	t.Run("Background", func(t *testing.T) {
		t.Parallel()
		background(t, b)
	})
	t.Run("Order", func(t *testing.T) {
		t.Parallel()
		const second, after = "2026-01-02T03:04:32Z", "2026-01-02T03:04:32.003Z"
		for _, test := range []struct {
			answered string
			events   [][2]string // each is a state, and when it began
		}{
			{second, [][2]string{{"approved", second}, {"used", after}}},
			{second, [][2]string{{"used", after}}},
			{after, [][2]string{{"approved", after}, {"used", after}}},
		} {
			var saw string
			b.Run(t, "order", map[string]any{"origins": []string{startFake(t, nil)}, "events": test.events,
				"answered": test.answered}, &saw)
			if saw != "used" {
				t.Errorf("the last of %v, answered at %s, is shown as %s", test.events, test.answered, saw)
			}
		}
	})
	t.Run("Widths", func(t *testing.T) {
		t.Parallel()
		var found []string
		b.Run(t, "widths", map[string]any{"origins": []string{startFake(t, nil)}, "paths": paths()}, &found)
		for _, f := range found {
			t.Error(f)
		}
	})
	t.Run("Limits", func(t *testing.T) {
		t.Parallel()
		lookAtLimits(t, b)
	})
	t.Run("Lists", func(t *testing.T) {
		t.Parallel()
		lists(t, b)
	})
	t.Run("Places", func(t *testing.T) {
		t.Parallel()
		places(t, b)
	})
	t.Run("Hostile", func(t *testing.T) {
		t.Parallel()
		hostile(t, b)
	})
}
