package approvals

import "testing"

// TestByBackend: a level of rules is not a kind of backends.
func TestByBackend(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]bool{"": false, "tenant": false, "user+agent": false, "shield": false,
		"engine": true} {
		if got := byBackend(level); got != want {
			t.Errorf("%q: %t", level, got)
		}
	}
}
