package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// The unit is what systemd understands, and leaves the gateway little that it could do.
func TestSystemd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("systemd/capgate.service")
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "capgate.service")
	check.Must(t, os.WriteFile(file, []byte(replace(t, string(text), "/usr/local/bin/capgate", capgate)), 0o600))
	if out, errs := command(t, "systemd-analyze", "verify", file); out+errs != "" {
		t.Errorf("%s%s", out, errs)
	}
	for _, want := range []string{"\nLogsDirectory=capgate\n", "\nExecReload=/bin/kill -HUP $MAINPID\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if strings.Contains(string(text), "\nProcSubset=pid") {
		t.Error("process_start_time_seconds and the machine's memory cannot be found out")
	}
	// 0 is nothing, 100 everything.
	command(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", file)
}
