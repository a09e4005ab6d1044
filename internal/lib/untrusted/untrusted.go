// Package untrusted makes the texts of others fit for terminals, logs and errors: names, descriptions, reasons. It is
// the only place that cuts such texts or repairs their encoding. Word, Line and Beginning return one line without
// terminal control sequences, which cannot imitate the output around it.
package untrusted

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// UTF8 returns a text with U+FFFD for each run of bytes that are not UTF-8.
func UTF8(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }

// Clip returns a text in UTF-8 of at most some bytes, followed by an ellipsis if it was cut.
func Clip(s string, most int) string {
	cut := Cut(s, most)
	if len(s) > most {
		cut += "…"
	}
	return cut
}

// Cut returns the beginning of a text, in UTF-8 and of at most some bytes.
func Cut(s string, most int) string {
	return Truncate(UTF8(Truncate(s, most)), most) // U+FFFD may have more bytes than what it replaces
}

// Truncate returns the beginning of a text, of at most some bytes. It cuts no character, and repairs none.
func Truncate[T string | []byte](s T, most int) T {
	if len(s) <= most {
		return s
	}
	end := most
	for end > max(0, most-utf8.UTFMax) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

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
	}, UTF8(s)))
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
