package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/initfiles"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestInitFor: each way has files whose configuration is valid once its secrets are at their places, and a second run
// leaves them as they are. Secrets are in no output.
func TestInitFor(t *testing.T) {
	t.Parallel()
	for _, way := range initfiles.Ways() {
		dir := filepath.Join(t.TempDir(), way)
		exit, out, errs := inProcess(t, "init", "--for", way, dir, "--tls", "self-signed", "--host", "gw.example")
		if exit != 0 || errs != "" {
			t.Fatalf("%s: %d %s%s", way, exit, out, errs)
		}
		for _, name := range []string{"operator.key", "caller.key"} {
			key, err := os.ReadFile(filepath.Join(dir, name))
			check.Must(t, err)
			if strings.Contains(out, strings.TrimSpace(string(key))) || !strings.Contains(out, dir+"/"+name) {
				t.Errorf("%s: the output has the key, or not its file:\n%s", way, out)
			}
		}
		exit, _, errs = inProcess(t, "init", "--for", way, dir)
		if exit != exitRefused || !strings.Contains(errs, "nothing is written: "+dir) {
			t.Errorf("%s again: %d %s", way, exit, errs)
		}
	}
}

// TestInitForRefuses: a flag that has no effect, or a value that cannot be used, is an error before anything is
// written.
func TestInitForRefuses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--tls self-signed":                       "--tls requires --for",
		"--for compoze x":                         `--for "compoze": want compose, `,
		"--for compose -":                         "--for writes a directory",
		"--for compose --force x":                 "--force is not for --for",
		"--for compose --tls acme x":              `--tls "acme": want self-signed`,
		"--for compose --host a:80 x":             `--host "a:80": want a name or an address, without a port`,
		"--for compose --redis redis://h:6379 x":  "--redis is for systemd",
		"--for systemd --image i x":               "--image is not for systemd",
		"--for systemd --redis redis://u:p@h:1 x": "--redis: want a URL without a password",
		"--for systemd --redis x x":               "--redis: want a URL without a password",
	} {
		exit, _, errs := inProcess(t, append([]string{"init"}, strings.Fields(line)...)...)
		if exit != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s, want %s", line, exit, errs, want)
		}
		if _, err := os.Lstat("x"); err == nil {
			t.Fatalf("%s: it wrote x", line)
		}
	}
}
