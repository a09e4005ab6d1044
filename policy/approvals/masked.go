package approvals

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maskPrefix stands at the beginning of what an approver does not get to see, as in
// [masked: 9 to 32 characters, by its name].
const maskPrefix = "[masked"

// maskOf says that there is a value, how long it is, what kind of text, and why it is not shown.
func maskOf(value, why string) string {
	text := maskPrefix + ": " + lengthClass(utf8.RuneCountInString(value)) + " characters"
	if strings.ContainsFunc(value, unicode.IsSpace) {
		text += ", with spaces"
	}
	if strings.ContainsAny(value, shellMetacharacters) {
		text += ", with signs of a shell"
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

// fakeMask is a text of the asker's that looks like a mask. Its bracket is shown as an escape.
var fakeMask = regexp.MustCompile(`(?i)\[(\s*masked)`)

// escapedBracket stands for that bracket until it is written; it is no character.
const escapedBracket = '\ufdd0'

func escapeMasks(text string) string {
	return fakeMask.ReplaceAllString(text, string(escapedBracket)+"$1")
}

// shellMetacharacters do more in a command than be part of a word.
const shellMetacharacters = "$`|&;<>(){}\\"

// plausibleSecret says whether a word can be a secret, and is nothing that would do something else
// in a command: an option, a path, an address.
func plausibleSecret(word string) bool {
	return word != "" && !strings.ContainsAny(word, shellMetacharacters) && !strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "/") &&
		!strings.HasPrefix(word, "./") && !strings.HasPrefix(word, "~/") && !strings.Contains(word, "://")
}

// looksRandom says whether a word has letters and digits as no word of a language has them.
func looksRandom(word string) bool {
	return len(word) >= 6 && plausibleSecret(word) && strings.ContainsFunc(word, unicode.IsLetter) && strings.ContainsFunc(word, unicode.IsDigit)
}

// secretPhrase says whether a text can be a secret of one or several words: all can be part of one,
// and if there are several one of them is no word of a language.
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
