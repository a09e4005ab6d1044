package nearest_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/lib/nearest"
)

// TestNearestNameIsFound: a mistyped word finds the name that it stands for, and another word none.
func TestNearestNameIsFound(t *testing.T) {
	t.Parallel()
	names := []string{"weather", "get_forecast", "acme", "echo", strings.Repeat("long", 100)}
	for word, want := range map[string]string{
		"weathr": "weather", "Weather": "weather", "waether": "weather", "get_forcast": "get_forecast",
		"acmee": "acme", "ecoh": "echo",
		"zebra": "", "": "", "xx": "", strings.Repeat("long", 100): "",
	} {
		if got := nearest.To(word, names); got != want {
			t.Errorf("%.20s: %q; want %q", word, got, want)
		}
	}
	if got := nearest.Hint("ecoh", names); got != `; did you mean "echo"?` {
		t.Error(got)
	}
	if got := nearest.List([]string{"c", "a", "b"}, 2); got != "a, b, …" {
		t.Error(got)
	}
}
