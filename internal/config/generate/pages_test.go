package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestEveryFieldIsOnAPage: the documentation says of each field, besides the reference, when it is needed. A page
// counts if its code has the names of the field and of the mapping that it is in.
func TestEveryFieldIsOnAPage(t *testing.T) {
	t.Parallel()
	pages := namesOnPages(t)
	all := config.Describe(comments{}.of, protocols.Config()...)
	walk(all, "", func(path string, d *strictyaml.Description) {
		if len(d.Fields) > 0 || d.Items != nil && len(d.Items.Fields) > 0 {
			return // its own fields count
		}
		names := strings.Split(path, ".")
		needed := names[max(0, len(names)-2):]
		if needed[0] == "fleets" { // most pages are about fields of fleets
			needed = needed[1:]
		}
		for _, has := range pages {
			missing := false
			for _, name := range needed {
				missing = missing || !has[name]
			}
			if !missing {
				return
			}
		}
		t.Errorf("no page names %s", path)
	})
}

// namesOnPages returns the names in the code of each page of the documentation.
func namesOnPages(t *testing.T) (pages []map[string]bool) {
	t.Helper()
	code, name := regexp.MustCompile("(?s)```.*?```|`[^`\n]+`"), regexp.MustCompile(`[a-z_]+`)
	generated := map[string]bool{"configuration.md": true, "keys.md": true}
	check.Must(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || generated[filepath.Base(path)] {
			return err
		}
		text, err := os.ReadFile(path)
		has := map[string]bool{}
		for _, part := range code.FindAllString(string(text), -1) {
			for _, n := range name.FindAllString(part, -1) {
				has[n] = true
			}
		}
		pages = append(pages, has)
		return err
	}))
	return pages
}
