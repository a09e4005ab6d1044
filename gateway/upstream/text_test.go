package upstream_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/upstream"
)

// TestSaidSearchesWhatItShows: the search for credentials has a bound, which is far behind what is shown.
func TestSaidSearchesWhatItShows(t *testing.T) {
	t.Parallel()
	const most, secret = 100, " password=hunter2"
	for behind, withheld := range map[int]bool{0: true, most - 5: true, most + 1000: true, 1 << 20: false} {
		said := upstream.Said(strings.Repeat("x", behind)+secret, most)
		if strings.Contains(said, "not shown") != withheld || strings.Contains(said, "hunter2") {
			t.Errorf("%d bytes before a credential: %s", behind, said)
		}
	}
}
