package notice

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// blanks are letters and symbols that are printed as nothing.
const blanks = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"

// maxMarks bounds the combining marks on one character, which otherwise cover the lines above and below.
const maxMarks = 3

// visible returns a text in which characters that are invisible, or change how the rest reads, are written as their
// numbers. Line feeds stay if lines.
func visible(s string, lines bool) string {
	var b strings.Builder
	marks := 0
	for i, r := range s {
		if unicode.In(r, unicode.Mn, unicode.Me) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == '\n' && lines:
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case marks > maxMarks || !unicode.IsPrint(r) || strings.ContainsRune(blanks, r) || isSelector(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isSelector reports whether a rune chooses the form of the one before it. A series of them can carry a hidden text.
func isSelector(r rune) bool { return r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef }

// inline returns a visible text of one line and at most some characters.
func inline(s string, most int) string {
	if len(s) > 8*most { // each character has at most 4 bytes; a cut one is written as its bytes
		s = s[:8*most]
	}
	return cut(strings.TrimSpace(visible(s, false)), most)
}

// cut shortens a text to a number of characters, the last of which says so.
func cut(s string, most int) string {
	n := 0
	for i := range s {
		if n == most-1 && utf8.RuneCountInString(s[i:]) > 1 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// fitted shortens a text so that its escaped form has at most some bytes.
func fitted(s string, most int, escape func(string) string) string {
	const more = "\n… (there is more)"
	all, from := strings.Builder{}, 0
	for i, r := range s {
		end := i + utf8.RuneLen(r)
		next := escape(s[from:end])
		if all.Len()+len(next) > most-len(more) && all.Len()+len(escape(s[from:])) > most {
			return all.String() + more
		}
		all.WriteString(next)
		from = end
	}
	return all.String()
}
