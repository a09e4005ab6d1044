package approvals

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maskPrefix is the beginning of a mask, as in [masked: 9 to 32 characters, by its name].
const maskPrefix = "[masked"

// maskOf describes a value: its length, its kind of text, and the reason of the mask.
func maskOf(value, why string) string {
	text := maskPrefix + ": " + lengthClass(utf8.RuneCountInString(value)) + " characters"
	if strings.ContainsFunc(value, unicode.IsSpace) {
		text += ", with spaces"
	}
	if strings.ContainsAny(value, shellMetacharacters) {
		text += ", with shell metacharacters"
	}
	return text + ", " + why + "]"
}

func lengthClass(n int) string {
	switch {
	case n <= 8:
		return "1 to 8"
	case n <= 32:
		return "9 to 32"
	case n <= 128:
		return "33 to 128"
	case n <= 1024:
		return "129 to 1024"
	}
	return "over 1024"
}

// fakeMask matches text that looks like a mask. Its bracket is escaped.
var fakeMask = regexp.MustCompile(`(?i)\[(\s*masked)`)

// escapedBracket replaces that bracket until it is written. It is a Unicode noncharacter.
const escapedBracket = '\ufdd0'

func escapeMasks(text string) string {
	return fakeMask.ReplaceAllString(text, string(escapedBracket)+"$1")
}

// shellMetacharacters have a meaning in shell commands.
const shellMetacharacters = "$`|&;<>(){}\\"

// plausibleSecret reports whether a word can be a secret, and cannot be another part of a command: an option, a
// path, an address.
func plausibleSecret(word string) bool {
	return word != "" && !strings.ContainsAny(word, shellMetacharacters) && !strings.HasPrefix(word, "-") &&
		!strings.HasPrefix(word, "/") &&
		!strings.HasPrefix(word, "./") && !strings.HasPrefix(word, "~/") && !strings.Contains(word, "://")
}

// credential reports whether a text is the credential of a header: a random word, after the scheme if there is one.
func credential(text string) bool {
	words := strings.Fields(text)
	return len(words) > 0 && len(words) <= 2 && opaque(words[len(words)-1])
}

// opaque reports whether a text is one random word that is no host, path or address.
func opaque(text string) bool { return looksRandom(text) && !strings.ContainsAny(text, " \t\n./\\:@") }

// looksRandom reports whether a word mixes letters and digits as no natural word does.
func looksRandom(word string) bool {
	return len(word) >= 6 && plausibleSecret(word) && strings.ContainsFunc(word, unicode.IsLetter) &&
		strings.ContainsFunc(word, unicode.IsDigit)
}

// secretPhrase reports whether a text can be a secret of one or several words: all are plausible, and one of
// several looks random.
func secretPhrase(text string) bool {
	words := strings.Fields(text)
	some := len(words) == 1
	for _, w := range words {
		if !plausibleSecret(w) {
			return false
		}
		some = some || looksRandom(w)
	}
	return some
}
