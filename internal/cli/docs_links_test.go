package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link      = regexp.MustCompile(`\]\(([^)\s#]*)(?:#([^)\s]*))?\)|(?:src|srcset|href)="([^"#]+)(?:#([^"]*))?"`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	ownAnchor = regexp.MustCompile(`<a id="([^"]+)">`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	notOfSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	marked    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	scheme    = regexp.MustCompile(`^[a-z]+:`)
)

// TestLinks: every file that a document links to exists, and so does every heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	all, links := documents(t), 0
	anchors := map[string]map[string]bool{}
	for _, document := range all {
		anchors[document] = anchorsOf(read(t, document))
	}
	for _, document := range all {
		text := codeSpan.ReplaceAllString(fenced.ReplaceAllString(read(t, document), ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := m[1]+m[3], m[2]+m[4]
			if scheme.MatchString(target) || target == "" && anchor == "" {
				continue
			}
			links++
			file := document
			if target != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(document), target))
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, file)
			} else if known, is := anchors[file]; is && anchor != "" && !known[anchor] {
				t.Errorf("%s links to %s#%s: the page has no such heading", document, file, anchor)
			}
		}
	}
	if links < 120 {
		t.Errorf("only %d links were found", links)
	}
}

// anchorsOf returns the fragments of a page: its headings as GitHub names them, and its own anchors.
func anchorsOf(text string) map[string]bool {
	found := map[string]bool{}
	text = fenced.ReplaceAllString(text, "")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		plain := strings.ToLower(notOfSlug.ReplaceAllString(marked.ReplaceAllString(m[1], "$1"), ""))
		found[strings.ReplaceAll(strings.TrimSpace(plain), " ", "-")] = true
	}
	for _, m := range ownAnchor.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// TestSiteHasEveryPage: the site's navigation and the index lead to every page of docs.
func TestSiteHasEveryPage(t *testing.T) {
	t.Parallel()
	navigation, index := read(t, "tools/site/mkdocs.yml"), read(t, "docs/README.md")
	for _, document := range documents(t) {
		page, is := strings.CutPrefix(document, "docs/")
		if !is || page == "README.md" {
			continue
		}
		if !strings.Contains(navigation, ": "+page+"\n") {
			t.Errorf("tools/site/mkdocs.yml does not have %s", page)
		}
		if !strings.Contains(index, "]("+page+")") && !strings.HasPrefix(page, "run/runbooks/") {
			t.Errorf("docs/README.md does not link to %s", page)
		}
	}
}

var file = regexp.MustCompile("`([a-z0-9_.]+(/[a-z0-9_.]+)+|[a-z0-9_.]+\\.(go|yaml|yml))`")

// TestArchitectureNamesFilesThatExist: files that ARCHITECTURE.md names in code spans exist.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	found := file.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1)
	if len(found) < 20 {
		t.Errorf("only %d files were found", len(found))
	}
	for _, m := range found {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && m[1] != "doc.go" { // of each package
			t.Errorf("ARCHITECTURE.md: %v", err)
		}
	}
}
