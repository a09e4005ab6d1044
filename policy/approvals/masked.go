package approvals

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maskBegins stands at the beginning of what an approver does not get to see, as in
// [masked: 9 to 32 characters, by its name].
const maskBegins = "[masked"

// maskOf says that there is a value, how long it is, what kind of text, and why it is not shown.
func maskOf(value, why string) string {
	text := maskBegins + ": " + lengthClass(utf8.RuneCountInString(value)) + " characters"
	if strings.ContainsFunc(value, unicode.IsSpace) {
		text += ", with spaces"
	}
	if strings.ContainsAny(value, shellSigns) {
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

// posing is a text of the asker's that looks like a mask. Its bracket is shown as an escape.
var posing = regexp.MustCompile(`(?i)\[(\s*masked)`)

// posed stands for that bracket until it is written; it is no character.
const posed = '\ufdd0'

func expose(text string) string { return posing.ReplaceAllString(text, string(posed)+"$1") }

// shellSigns do more in a command than be part of a word.
const shellSigns = "$`|&;<>(){}\\"

// plausible says whether a word can be a secret, and is nothing that would do something else
// in a command: an option, a path, an address.
func plausible(word string) bool {
	return word != "" && !strings.ContainsAny(word, shellSigns) && !strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "/") &&
		!strings.HasPrefix(word, "./") && !strings.HasPrefix(word, "~/") && !strings.Contains(word, "://")
}

// random says whether a word has letters and digits as no word of a language has them.
func random(word string) bool {
	return len(word) >= 6 && plausible(word) && strings.ContainsFunc(word, unicode.IsLetter) && strings.ContainsFunc(word, unicode.IsDigit)
}

// phrase says whether a text can be a secret of one or several words: all can be part of one,
// and if there are several one of them is no word of a language.
func phrase(text string) bool {
	words := strings.Fields(text)
	some := len(words) == 1
	for _, w := range words {
		if !plausible(w) {
			return false
		}
		some = some || random(w)
	}
	return some
}
