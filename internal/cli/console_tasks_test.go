package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// taskOfPerson bounds the clicks of a task in the console.
type taskOfPerson struct {
	words  string // of its row in console/README.md
	clicks int    // at most; a chosen option and a pressed key count as clicks
	texts  int    // pasted, at most
	sees   string // what the person must see, parts between " & "
}

// tasksOfPeople starts each task at Home, and those of approvers in the Inbox.
var tasksOfPeople = map[string]taskOfPerson{
	"down":    {"See which backend is down, since when and why", 1, 0, "down & connection refused"},
	"approve": {"Approve one of 30 calls after reading all of it", 3, 0, "person-7 & all of it"},
	"deny":    {"Deny a call with a reason", 3, 1, "denied & not today"},
	"alike":   {"Answer 10 calls that are alike", 3, 0, strings.Repeat("approved & ", 9) + "approved"},
	"request": {"See by its request id who made a call, and why it was refused", 2, 1,
		"echo & CAPABILITY_UNKNOWN & someone & acme"},
	"key":     {"Get a key, and a `curl` with it that works", 4, 0, "200 & open"},
	"rule":    {"Try a rule, and see what it would have done", 5, 3, "echo & allow & block"},
	"change":  {"Accept a changed tool after seeing the difference", 3, 0, "Changed."},
	"near":    {"See whether a tenant is near a limit", 2, 0, "the calls of this month are used & of 10"},
	"letters": {"Retry all dead letters", 2, 0, "event"},
}

const tasksConfig = `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
drain: {delay: 0s}
policies: {}
redis: {timeout: 10s, url: embedded}
identity: {store: redis}
approvals: {notices: [{name: webhook, url: '$webhook', secret_file: '$dir/secret'}]}
fleets:
  - {capability: half, policy: allow, slow_start: 0s, backends: ['$up', '$down']}
  - {capability: open, policy: allow, slow_start: 0s, backends: ['$up']}
  - {capability: asks, policy: ask, slow_start: 0s, backends: ['$up']}
  - {capability: changes, manifest: '$dir/changes.yaml', slow_start: 0s, backends: ['$up']}
`

// consoleTasks: people do what they come for, with few clicks.
func consoleTasks(t *testing.T, b *browsertest.Browser) {
	dir := t.TempDir()
	manifest := strings.Replace(manifestOf("allow"), "id: caps", "id: changes", 1)
	put := func(name, text string) { check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	put("secret", strings.Repeat("a secret of the tests ", 3))
	put("changes.yaml", manifest)
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	}))
	t.Cleanup(gone.Close)
	vars := map[string]string{"dir": dir, "webhook": gone.URL, "down": "127.0.0.1:1",
		"up": gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr}
	file := writeConfig(t, os.Expand(tasksConfig, func(name string) string { return vars[name] }))
	_, public, admin := serve(t, nil, "--config", file)
	waitPage(t, "http://"+admin+"/v1/fleets", `"state":"down"`)
	change := func() {
		put("changes.yaml", strings.Replace(manifest, "description: ", "description: Changed. ", 1))
		waitPage(t, "http://"+admin+"/v1/capabilities/changes", `"drifted":true`)
	}
	var saw map[string]struct {
		Clicks, Texts int
		Saw           string
	}
	b.Run(t, "tasks", seen{"origins": []string{"http://" + admin}, "public": "http://" + public,
		"control": control(t, map[string]func(){"change": change})}, &saw)
	rows := read(t, "console/README.md")
	for name, task := range tasksOfPeople {
		got := saw[name]
		t.Logf("%-8s %d clicks, %d texts", name, got.Clicks, got.Texts)
		if got.Clicks == 0 || got.Clicks > task.clicks || got.Texts > task.texts {
			t.Errorf("%s: %d clicks and %d texts, want at most %d and %d", name, got.Clicks, got.Texts, task.clicks,
				task.texts)
		}
		if row := fmt.Sprintf("| %d | %d |\n", got.Clicks, got.Texts); !regexp.MustCompile(`\n\| ` +
			regexp.QuoteMeta(task.words) + ` \|[^|\n]*` + regexp.QuoteMeta(row)).MatchString(rows) {
			t.Errorf("console/README.md has no row of %q that ends with %s", task.words, row)
		}
		for part := range strings.SplitSeq(task.sees, " & ") {
			if !strings.Contains(got.Saw, part) {
				t.Errorf("%s: %q is missing in %s", name, part, fmt.Sprintf("%.600s", got.Saw))
			}
		}
	}
}
