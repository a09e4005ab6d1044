package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// root is the repository's, seen from this package.
const root = "../../.."

// TestTheTableOfKeysIsUpToDate: `make generate` was run.
func TestTheTableOfKeysIsUpToDate(t *testing.T) {
	t.Parallel()
	files, err := generate(root)
	check.Must(t, err)
	for name, text := range files {
		if is, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(is) != string(text) {
			t.Errorf("%s is out of date: run `make generate` and commit (%v)", name, err)
		}
	}
}

// TestTagsOfTenants: tags of a tenant's own data with the same word have the same length.
func TestTagsOfTenants(t *testing.T) {
	t.Parallel()
	all := table{owned: map[string]int{}}
	check.Must(t, all.add("{TENANT:a}:x  hash  none  x\n{TENANT:b:CAP}  set  none  x\n{c:d:SUM}:y  owner  1 h  y\nc  "+
		"channel  z\n"))
	if err := all.add("{TENANT:a:CAP}  string  none  x\n"); err == nil {
		t.Error("tags of two lengths are accepted")
	}
	code, err := all.code()
	check.Must(t, err)
	for _, want := range []string{"case \"a\":\n\t\treturn 2\n\tcase \"b\":\n\t\treturn 3", `[]string{"{c:d:*}:y"}`} {
		if !strings.Contains(string(code), want) {
			t.Errorf("without %s:\n%s", want, code)
		}
	}
}

// TestEachTagIsListed: each tag and channel that a store makes is in the comment of a store. A tenant's own data that
// is not listed would outlive the tenant.
func TestEachTagIsListed(t *testing.T) {
	t.Parallel()
	files, err := generate(root)
	check.Must(t, err)
	listed := string(files["docs/run/keys.md"])
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	check.Must(t, err)
	making := regexp.MustCompile(`(tag\{|\.channel\()(\w[\w.]*, )?"(\w+)"`)
	found := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		check.Must(t, err)
		for _, made := range making.FindAllStringSubmatch(string(text), -1) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			found++
			row := `(?m)^\{` + made[3] + `[:}]`
			switch {
			case made[1] == ".channel(":
				row = `(?m)^` + made[3] + ` +channel `
			case made[2] != "":
				row = `(?m)^\{(TENANT|ID):` + made[3] + `[:}]`
			}
			if !regexp.MustCompile(row).MatchString(listed) {
				t.Errorf("%s makes %s, and no store lists it in its comment", filepath.Base(name), made[0])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d tags and channels were found", found)
	}
}
