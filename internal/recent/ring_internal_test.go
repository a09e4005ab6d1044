package recent

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// TestSlotsAreCopied: what is read or published does not change when its slots get other calls. A slot that had long
// texts gets short ones, and the other way round.
func TestSlotsAreCopied(t *testing.T) {
	t.Parallel()
	r, long := newRing(1), strings.Repeat("x", maxWord)
	add := func(tool string) {
		r.add(r.owner("acme"), &telemetry.Record{Call: &call.Call{Tenant: "acme", Tool: tool, User: tool, Agent: tool,
			Key: tool, Capability: tool}, RequestID: "r"})
	}
	for i, tool := range []string{"first", long, "last", long} {
		add(tool)
		read, published := r.all(), r.take(map[int32]uint64{})
		add("another")
		for name, slots := range map[string][]slot{"read": read, "published": published} {
			c := slots[0].call("a", "p")
			if c.Tool != tool || c.Capability != tool || c.RequestID != "r" || c.Code != "OK" {
				t.Errorf("%d, %s: %+v", i, name, c)
			}
		}
		if c := r.all()[0].call("a", "p"); c.Tool != "another" || c.Tenant != "acme" {
			t.Errorf("%d, the next call: %+v", i, c)
		}
	}
}
