package main

import (
	"strings"
	"unicode"
)

// What others wrote, names, descriptions, reasons, is shown by these alone: nothing of it does
// anything to a terminal, nor looks like more than it is.

// word is a name on one line; "-" for none.
func word(s string) string { return orDash(strings.Join(strings.Fields(visible(s)), " ")) }

// lines is a text in which every further line is indented.
func lines(s string, indent int) string {
	return strings.ReplaceAll(visible(s), "\n", "\n"+strings.Repeat(" ", indent))
}

// beginning is a text on one line, cut after so many characters.
func beginning(s string, most int) string {
	all := []rune(visible(strings.Join(strings.Fields(s), " ")))
	if len(all) > most {
		return string(all[:most]) + "…"
	}
	return string(all)
}

// visible has no characters but those that print: none that moves a cursor or turns the
// direction of what is around it.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
