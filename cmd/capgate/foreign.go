package main

import (
	"strings"
	"unicode"
)

// What others wrote, names, descriptions, reasons, is shown by these alone: nothing of it does
// anything to a terminal, nor looks like more than it is.

// word returns a name on one line; "-" for none.
func word(s string) string { return orDash(strings.Join(strings.Fields(visible(s)), " ")) }

// lines returns a text with indented continuation lines.
func lines(s string, indent int) string {
	return strings.ReplaceAll(visible(s), "\n", "\n"+strings.Repeat(" ", indent))
}

// beginning returns a text on one line, truncated to so many characters.
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
