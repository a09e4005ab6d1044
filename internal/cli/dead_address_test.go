package cli

import (
	"strings"
	"testing"
	"time"
)

// TestDeadAddress: a command whose address accepts connections and never responds ends soon, with an error that says
// so.
func TestDeadAddress(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"invoke --addr ADDR caps echo", "engines list --addr ADDR",
		"approvals watch --admin ADDR", "status --admin ADDR"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			began, addr := time.Now(), mute(t)
			exit, _, errs := runProgram(t, nil, strings.Fields(strings.ReplaceAll(command, "ADDR", addr))...)
			took := time.Since(began)
			if exit != exitUnreachable || !strings.Contains(errs, addr) || took > 2*(requestTimeout+connectTimeout) {
				t.Errorf("exit status %d after %v: %s", exit, took, errs)
			}
		})
	}
}
