package telemetry

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/lib/untrusted"
)

// maxString bounds the bytes of each string in a line. Tool names, paths and request ids come from clients.
const maxString = 128

// truncate returns the beginning of a string, at most maxString bytes.
func truncate(s string) string { return untrusted.Truncate(s, maxString) }

// plainJSON marks the bytes that need no escape in a JSON string: ASCII without controls, quote and backslash.
var plainJSON = func() (plain [256]bool) {
	for b := ' '; b < utf8.RuneSelf; b++ {
		plain[b] = b != '"' && b != '\\'
	}
	return plain
}()

// appendJSON appends the inside of a JSON string, as slog.JSONHandler escapes it:
// invalid UTF-8 becomes U+FFFD, and the two line separators of JavaScript are
// escaped.
func appendJSON(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	n := 0
	for n < len(s) && plainJSON[s[n]] {
		n++
	}
	if n == len(s) { // nearly always
		return append(b, s...)
	}
	start := 0
	for i := n; i < len(s); {
		c := s[i]
		if plainJSON[c] {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if c >= utf8.RuneSelf && (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029' {
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		switch r {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		case utf8.RuneError:
			b = append(b, `\ufffd`...)
		case '\u2028', '\u2029':
			b = append(b, `\u202`...)
			b = append(b, hex[r&0xF])
		default:
			b = append(b, `\u00`...)
			b = append(b, hex[c>>4], hex[c&0xF])
		}
		i += size
		start = i
	}
	return append(b, s[start:]...)
}

// appendText appends a value as slog.TextHandler does: quoted only if necessary.
func appendText(b []byte, s string) []byte {
	if needsQuotes(s) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

func needsQuotes(s string) bool {
	if s == "" {
		return true
	}
	for _, r := range s { // invalid UTF-8 becomes RuneError, which is quoted too
		if r < utf8.RuneSelf {
			if r == ' ' || r == '=' || r != '\\' && !plainJSON[r] {
				return true
			}
		} else if r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return true
		}
	}
	return false
}
