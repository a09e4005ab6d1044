package mcp

import (
	"encoding/json"
	"testing"
	"time"
)

// TestPollingIsBounded: a server that names an absurd time between two polls, or none, is polled within the bounds.
func TestPollingIsBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"-1": time.Second, "0": time.Second, "null": time.Second,
		`"soon"`: time.Second, "[]": time.Second, "1": 200 * time.Millisecond, "0.5": 200 * time.Millisecond,
		"1500": 1500 * time.Millisecond, "3600000": 10 * time.Second, "1e300": 10 * time.Second} {
		for _, member := range []string{"pollIntervalMs", "pollInterval"} {
			state := new(taskState)
			if err := json.Unmarshal([]byte(`{"`+member+`":`+text+`}`), state); err != nil || state.interval() != want {
				t.Errorf("%s %s: %v, %v", member, text, state.interval(), err)
			}
		}
	}
	if poll := new(taskState).interval(); poll != time.Second {
		t.Errorf("by default %v", poll)
	}
}
