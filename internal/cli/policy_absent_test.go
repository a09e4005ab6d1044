package cli

import (
	"net/http"
	"strings"
	"testing"
)

// TestUnknownRulesAreNamed: the error of deleting an unknown rule names the existing ones, and its advice works.
func TestUnknownRulesAreNamed(t *testing.T) {
	t.Parallel()
	w := startTenants(t)
	w.run(t, 0, "policy", "set", "caps", "echo", "allow", "--tenant", "acme", "--user", "ann")
	for _, test := range []struct{ line, want string }{
		{"caps ecoh --tenant acme --user ann", `did you mean "echo of caps by user ann"?`},
		{"cap echo --tenant acme --user ann", `did you mean "echo of caps by user ann"?`},
		{"caps echo --tenant acme", `did you mean "echo of caps by user ann"?`},
		{"other tool --tenant acme", "the rules of the tenant acme are about: echo of caps by user ann"},
		{"caps echo --tenant acme --candidate", "there are no candidate rules of the tenant acme"},
		{"caps echo --global", "there are no rules of all tenants"},
	} {
		text := w.run(t, 1, append([]string{"policy", "rm"}, strings.Fields(test.line)...)...)
		if !strings.Contains(text, test.want) || strings.Contains(text, "force") ||
			!strings.Contains(text, "POLICY_UNKNOWN") {
			t.Errorf("rm %s: %s; want %s", test.line, text, test.want)
		}
	}
	if text := w.run(t, 1, "policy", "rm", "caps", "echo", "--tenant", "acm"); !strings.Contains(text,
		`did you mean "acme"?`) || strings.Contains(text, "force") {
		t.Error(text)
	}
	w.run(t, 2, "policy", "rm", "caps", "echo", "--tenant", "acme", "--force")
	w.run(t, 0, "policy", "rm", "caps", "echo", "--tenant", "acme", "--user", "ann")
}

// TestRulesOfNoTenant: rules of tenants that do not exist are listed with the others, and marked.
func TestRulesOfNoTenant(t *testing.T) {
	t.Parallel()
	w := startTenants(t)
	row := func(args ...string) string {
		t.Helper()
		for line := range strings.Lines(w.run(t, 0, append([]string{"policy", "list"}, args...)...)) {
			if strings.Contains(line, "umbrella") {
				return line
			}
		}
		return ""
	}
	w.run(t, 0, "policy", "set", "caps", "*", "allow", "--tenant", "umbrella", "--force")
	w.run(t, 0, "policy", "set", "caps", "*", "ask", "--tenant", "umbrella2", "--force")
	if line := row(); !strings.Contains(line, "(unknown tenant)") {
		t.Errorf("alone: %q", line)
	}
	w.run(t, 0, "policy", "set", "caps", "echo", "allow", "--tenant", "globex")
	for _, args := range [][]string{nil, {"--tenant", "umbrella"}, {"--tenant", "-"}} {
		if line := row(args...); !strings.Contains(line, "(unknown tenant)") {
			t.Errorf("%q: %q", args, line)
		}
	}
	if list := w.run(t, 0, "policy", "list"); strings.Count(list, "unknown tenant") != 2 ||
		strings.Count(list, "\n") != 4 {
		t.Error(list)
	}
	var all []string
	for token, pages := "", 0; pages == 0 || token != ""; pages++ {
		code, body := page(t, "http://"+w.admin+"/v1/policies?page_size=1&page_token="+token)
		if code != http.StatusOK || pages > 6 {
			t.Fatal(code, body, pages)
		}
		for _, name := range []string{"globex", `umbrella"`, `umbrella2"`} {
			if strings.Contains(body, `tenant":"`+name) || strings.Contains(body, `tenant": "`+name) {
				all = append(all, name)
			}
		}
		_, token, _ = strings.Cut(strings.ReplaceAll(body, " ", ""), `next_page_token":"`)
		token, _, _ = strings.Cut(token, `"`)
	}
	if len(all) != 3 {
		t.Errorf("got %q", all)
	}
	// Once the tenant exists, the mark disappears.
	w.run(t, 0, "tenants", "create", "umbrella", "--capabilities", "*")
	if line := row("--tenant", "umbrella"); line == "" || strings.Contains(line, "no such tenant") {
		t.Error(line)
	}
	w.run(t, 0, "policy", "rm", "caps", "*", "--tenant", "umbrella2")
	if list := w.run(t, 0, "policy", "list"); strings.Contains(list, "no such tenant") {
		t.Error(list)
	}
}
