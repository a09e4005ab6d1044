package container_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/container"
)

// TestClean: what a container says is one short line for a terminal, whatever it has sent.
func TestClean(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"ready":                              "ready",
		"\x1b[2Jready\r\nnow\x07":            "[2Jready  now",
		"\u202etxt.exe\u200b":                "txt.exe",
		"not \xff UTF-8":                     "not \ufffd UTF-8",
		strings.Repeat("a", 300):             strings.Repeat("a", 300),
		strings.Repeat("a", 301):             strings.Repeat("a", 300) + "…",
		strings.Repeat("a", 299) + "ä after": strings.Repeat("a", 299) + "…",
	} {
		if got := container.Clean(said); got != want || !utf8.ValidString(got) {
			t.Errorf("%.40q: %q, want %q", said, got, want)
		}
	}
}
