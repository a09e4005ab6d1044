package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const notesFile = "RELEASE_NOTES.md"

// makeNotes writes the section of the changelog about this version, or the unreleased one if it has none yet.
func (r *release) makeNotes(context.Context) error {
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes := section(string(text), r.number(), r.version)
	if notes == "" {
		notes = section(string(text), "Unreleased", r.version)
	}
	if notes == "" {
		return fmt.Errorf("CHANGELOG.md has nothing below [%s] or [Unreleased]", r.number())
	}
	return r.write(notesFile, []byte("# capgate "+r.version+"\n\n"+notes+"\n"))
}

// section returns the text of the changelog below the heading of a version, without surrounding space. Links to files
// point to the project's files at a tag.
func section(changelog, version, tag string) string {
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(version) + `\].*$`)
	at := heading.FindStringIndex(changelog)
	if at == nil {
		return ""
	}
	text := changelog[at[1]:]
	if next := strings.Index(text, "\n## "); next >= 0 {
		text = text[:next]
	}
	return strings.TrimSpace(fileLink.ReplaceAllString(text, "]("+project+"/blob/"+tag+"/$1)"))
}

var fileLink = regexp.MustCompile(`\]\(([\w./-]+\.md(?:#[\w-]+)?)\)`)
