package cli

import (
	"strings"
	"unicode"
)

// These functions print untrusted text: names, descriptions, reasons. Their output contains no terminal control
// sequences and cannot imitate the command's own output.

// word returns a name on one line; "-" for none.
func word(s string) string { return orDash(strings.Join(strings.Fields(visible(s)), " ")) }

// lines returns a text with indented continuation lines.
func lines(s string, indent int) string {
	return strings.ReplaceAll(visible(s), "\n", "\n"+strings.Repeat(" ", indent))
}

// beginning returns a text on one line, truncated to a number of characters.
func beginning(s string, most int) string {
	all := []rune(visible(strings.Join(strings.Fields(s), " ")))
	if len(all) > most {
		return string(all[:most]) + "…"
	}
	return string(all)
}

// visible returns a text without unprintable characters, such as those that move a cursor or change the
// direction of text.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
