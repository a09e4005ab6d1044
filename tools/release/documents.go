package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// completions maps shells to the file names of their completion scripts.
var completions = map[string]string{"bash": "capgate.bash", "zsh": "_capgate", "fish": "capgate.fish"}

// A manPage is generated from a page of the documentation.
type manPage struct{ name, section, about, from string }

// file returns the name of the page's file.
func (m manPage) file() string { return m.name + "." + m.section }

var manPages = []manPage{
	{"capgate", "1", "gateway for the tools of AI agents, and a client of it", "docs/run/cli.md"},
	{"capgate.yaml", "5", "configuration of capgate", "docs/run/configuration.md"},
}

// documents returns the directory of the completions and man pages.
func (r *release) documents() string { return filepath.Join(r.work, "documents") }

// makeDocuments writes the completions and the man pages.
func (r *release) makeDocuments(ctx context.Context) error {
	capgate, err := r.own(ctx)
	if err != nil {
		return err
	}
	for _, dir := range []string{"completions", "man"} {
		if err := os.MkdirAll(filepath.Join(r.documents(), dir), 0o755); err != nil {
			return err
		}
	}
	for shell, name := range completions {
		script, err := r.command(ctx, nil, capgate, "completion", shell)
		if err != nil {
			return err
		}
		to := filepath.Join(r.documents(), "completions", name)
		if err := os.WriteFile(to, []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	for _, m := range manPages {
		text, err := os.ReadFile(filepath.Join(r.source, m.from))
		if err != nil {
			return err
		}
		page := md2man.Render([]byte(m.markdown(string(text), r)))
		if err := os.WriteFile(filepath.Join(r.documents(), "man", m.file()), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}

var (
	relativeLink = regexp.MustCompile(`\[([^\]]*)\]\((?:[^):]|:[^/])*\)`)
	title        = regexp.MustCompile(`(?m)\A(<!--.*-->\n)?# .*\n`)
	fenceWords   = regexp.MustCompile("(?m)^```(\\w+) test$")
)

// markdown returns a page of the documentation with the start and the end of a man page. Links between pages would not
// work, so only their text remains.
func (m manPage) markdown(text string, r *release) string {
	text = title.ReplaceAllString(text, "# DESCRIPTION\n")
	text = relativeLink.ReplaceAllString(text, "$1")
	text = strings.ReplaceAll(text, "&lt;", `\<`)
	text = withoutTables(fenceWords.ReplaceAllString(text, "```$1"))
	head := fmt.Sprintf("%% %q %q %q \"capgate %s\"\n\n# NAME\n%s - %s\n\n", strings.ToUpper(m.name), m.section,
		r.date.Format(time.DateOnly), r.number(), m.name, m.about)
	return head + text + "\n# SEE ALSO\n" + project + "/tree/" + r.version + "/docs\n"
}
