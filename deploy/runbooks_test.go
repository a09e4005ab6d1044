package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// runbooks is the directory of the runbooks' pages.
const runbooks = "../docs/run/runbooks/"

// runbook is the section of an alert.
type runbook struct {
	text     string
	commands string // of its check, which a drill runs; "" for an alert without a check
	output   string // expected output; "…" matches anything
}

var (
	fence = regexp.MustCompile("(?s)```([a-z]+ [a-z]+)\n(.*?)```\n")
	urlOf = regexp.MustCompile(
		`^https://github\.com/capgate/capgate/blob/main/docs/run/runbooks/([a-z]+\.md)#([a-z]+)$`)
	titles = regexp.MustCompile(`(?m)^## (\w+)\n`)
)

// readRunbooks returns the runbook of each alert, by file and alert.
func readRunbooks(t *testing.T) map[string]map[string]runbook {
	t.Helper()
	files, err := filepath.Glob(runbooks + "*.md")
	check.Must(t, err)
	all := map[string]map[string]runbook{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		page := map[string]runbook{}
		found := titles.FindAllStringSubmatchIndex(string(text), -1)
		for i, at := range found {
			end := len(text)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			r := runbook{text: string(text[at[1]:end])}
			for _, block := range fence.FindAllStringSubmatch(r.text, -1) {
				switch _, kind, _ := strings.Cut(block[1], " "); kind {
				case "drill":
					r.commands = block[2]
				case "output":
					r.output = block[2]
				}
			}
			page[string(text[at[2]:at[3]])] = r
		}
		all[filepath.Base(file)] = page
	}
	return all
}

// TestRunbooks: each alert has a runbook with its meaning, the check and the remedy, and each runbook has an alert.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	pages := readRunbooks(t)
	names := alertNames(t)
	for _, a := range readAlerts(t) {
		at := urlOf.FindStringSubmatch(a.Annotations["runbook_url"])
		if at == nil || at[2] != strings.ToLower(a.Alert) {
			t.Errorf("%s: runbook_url %q; at %+v", a.Alert, a.Annotations["runbook_url"], at)
			continue
		}
		r, ok := pages[at[1]][a.Alert]
		if !ok {
			t.Errorf("%s: %s has no section for it", a.Alert, at[1])
		}
		for _, part := range []string{"**Meaning.** ", "**Check.** ", "**Action.** "} {
			if strings.Count(r.text, part) != 1 {
				t.Errorf("%s: %s: want one %q", at[1], a.Alert, part)
			}
		}
	}
	for file, page := range pages {
		for name := range page {
			if !slices.Contains(names, name) {
				t.Errorf("%s: %s is not an alert", file, name)
			}
		}
	}
}

// matches reports whether text has the parts of pattern between "…", in their order.
func matches(text, pattern string) bool {
	for part := range strings.SplitSeq(strings.TrimSpace(pattern), "…") {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// drill runs the commands of a runbook at a gateway until they print the output in the runbook.
func (r runbook) drill(t *testing.T, name, admin string) {
	t.Helper()
	if r.commands == "" || r.output == "" {
		t.Fatalf("the runbook of %s has no drill; r %+v", name, r)
	}
	check.Succeeds(t, "the commands of "+name, func() error {
		cmd := shell(t, strings.ReplaceAll(r.commands, "localhost:8081", admin))
		out, err := cmd.CombinedOutput()
		if err != nil || !matches(string(out), r.output) {
			return fmt.Errorf("%v\n%s", err, out)
		}
		return nil
	})

}
