// Package untrusted makes the texts of others fit for terminals, logs and errors: names, descriptions, reasons. Its
// results contain no terminal control sequences, and Word, Line and Beginning have one line, so that they cannot
// imitate the output around them.
package untrusted

import (
	"strings"
	"unicode"
)

// Word returns a name on one line; "-" for none.
func Word(s string) string {
	if s = strings.Join(strings.Fields(Visible(s)), " "); s == "" {
		return "-"
	}
	return s
}

// Lines returns a text with indented continuation lines.
func Lines(s string, indent int) string {
	return strings.ReplaceAll(Visible(s), "\n", "\n"+strings.Repeat(" ", indent))
}

// Beginning returns a text on one line, truncated to a number of characters.
func Beginning(s string, most int) string {
	all := []rune(Visible(strings.Join(strings.Fields(s), " ")))
	if len(all) > most {
		return string(all[:most]) + "…"
	}
	return string(all)
}

// Line returns a text on one line, without unprintable characters.
func Line(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// Visible returns a text with a replacement for each unprintable character, such as those that move a cursor or change
// the direction of text.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
