package deploy

import (
	"os"
	"path/filepath"
	"testing"
)

// The unit is what systemd understands, and leaves the gateway little that it could do.
func TestSystemd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("systemd/capgate.service")
	must(t, err)
	file := filepath.Join(t.TempDir(), "capgate.service")
	must(t, os.WriteFile(file, []byte(replace(t, string(text), "/usr/local/bin/capgate", capgate)), 0o600))
	if out, errs := command(t, "systemd-analyze", "verify", file); out+errs != "" {
		t.Errorf("%s%s", out, errs)
	}
	// 0 is nothing, 100 everything.
	command(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", file)
}
