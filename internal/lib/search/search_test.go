package search_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/search"
)

// TestWordsMatchPartsOfTexts: each word must be in a text of the entry, wherever and in whatever case.
func TestWordsMatchPartsOfTexts(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"": true, "mail": true, "SEND": true, "end_m": true, "acme send": true, " mail\tacme ": true, "sendmail": false,
		"mail globex": false,
	} {
		q, refusal := search.Read("X", query)
		if got := q.Matches("Send_Mail", "acme"); refusal != nil || got != want {
			t.Errorf("%q matches: %v, %v", query, got, refusal)
		}
	}
	if _, refusal := search.Read("X", strings.Repeat("a", 257)); refusal == nil || refusal.Reason != "X" {
		t.Errorf("a long query: %v", refusal)
	}
}
