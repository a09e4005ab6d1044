package approvals

import "testing"

// TestByBackend: only the level of engines means that a backend has asked.
func TestByBackend(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]bool{"": false, "tenant": false, "user+agent": false, "shield": false,
		"engine": true} {
		if got := byBackend(level); got != want {
			t.Errorf("%q: %t", level, got)
		}
	}
}
