package cli

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	commandLine = regexp.MustCompile("(?m)(?:^\\s*(?:\\$ )?|`|\\(|until )capgate ([a-z][^`\n|;)]*)")
	flagName    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// TestDocumentsNameCommandsThatExist: every command line of capgate in a code block or span has an existing
// command and flags, also where the line cannot run in a test.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	root := commandTree(stdio{out: io.Discard, err: io.Discard})
	addCompletion(root, []string{"completion"})
	lines := 0
	for _, document := range documents(t) {
		if document == "CHANGELOG.md" {
			continue
		}
		text := read(t, document)
		for _, code := range slices.Concat(fenced.FindAllString(text, -1), codeSpan.FindAllString(text, -1)) {
			for _, m := range commandLine.FindAllStringSubmatch(code, -1) {
				lines++
				checkCommandLine(t, root, document, m[1])
			}
		}
	}
	if lines < 70 {
		t.Errorf("only %d command lines were found", lines)
	}
}

func checkCommandLine(t *testing.T, at *cobra.Command, document, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, "$(")
	for _, word := range strings.Fields(line) {
		if !at.HasSubCommands() {
			break
		}
		next := commandNamed(at, word)
		if next == nil {
			t.Errorf("%s: capgate %s: there is no command %q", document, line, word)
			return
		}
		at = next
	}
	for _, m := range flagName.FindAllStringSubmatch(line, -1) {
		if at.Flags().Lookup(m[1]) == nil && at.InheritedFlags().Lookup(m[1]) == nil && m[1] != "help" {
			t.Errorf("%s: capgate %s: there is no flag --%s", document, line, m[1])
		}
	}
}
