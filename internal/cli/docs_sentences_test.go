package cli

import (
	"regexp"
	"strings"
	"testing"
)

var (
	paragraphEnd = regexp.MustCompile(`\n[ \t]*\n|\n[ \t]*(?:[-*]|\d+\.) `)
	sentence     = regexp.MustCompile(`[.!?:]\**\s+`)
	markupOnly   = regexp.MustCompile(`<[^>]+>`)
)

// mostWords is the maximum length of a sentence; CONTRIBUTING.md asks for 25.
const mostWords = 28

// TestSentencesAreShort: sentences of README.md, SECURITY.md and docs are short enough for readers with another first
// language. Tables and code are not checked.
func TestSentencesAreShort(t *testing.T) {
	t.Parallel()
	count := 0
	for _, document := range documents(t) {
		if !strings.HasPrefix(document, "docs/") && document != "README.md" && document != "SECURITY.md" {
			continue
		}
		text := codeSpan.ReplaceAllString(fenced.ReplaceAllString(read(t, document), ""), "X")
		text = markupOnly.ReplaceAllString(marked.ReplaceAllString(text, "$1"), "")
		for _, paragraph := range paragraphEnd.Split(text, -1) {
			paragraph = strings.TrimSpace(paragraph)
			if strings.HasPrefix(paragraph, "|") || strings.HasPrefix(paragraph, "#") {
				continue
			}
			for _, s := range sentence.Split(paragraph, -1) {
				count++
				if words := strings.Fields(s); len(words) > mostWords {
					t.Errorf("%s: a sentence has %d words: %s", document, len(words), strings.Join(words, " "))
				}
			}
		}
	}
	if count < 1000 {
		t.Errorf("only %d sentences were found", count)
	}
}
