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
	const wrongRedis = "--redis: want a URL with the user capgate and without passwords"
	for line, want := range map[string]string{
		"--tls self-signed":                             "--tls requires --for",
		"--for compoze x":                               `--for "compoze": want compose, `,
		"--for compose -":                               "--for writes a directory",
		"--for compose --force x":                       "--force and --for exclude each other",
		"--for compose --tls acme x":                    `--tls "acme": want self-signed`,
		"--for compose --host a:80 x":                   `--host "a:80": want a name or an address, without a port`,
		"--for compose --redis redis://h:6379 x":        "--redis is for systemd",
		"--for compose --namespace a x":                 "--namespace is for kubernetes",
		"--for kubernetes --namespace a.com x":          "--namespace \"a.com\": want 1 to 63 lower-case letters",
		"--namespace a x":                               "--namespace requires --for",
		"--for systemd --image i x":                     "--image is not for systemd",
		"--for compose --tls= x":                        `--tls "": want self-signed`,
		"--for systemd --redis x x":                     wrongRedis,
		"--for systemd --redis embedded x":              wrongRedis,
		"--for systemd --redis redis://h:1 x":           wrongRedis,
		"--for systemd --redis redis://u@h:1 x":         wrongRedis,
		"--for systemd --redis redis://capgate:p@h:1 x": wrongRedis,
		"--for systemd --redis redis+sentinel://capgate@h:1/m?sentinel_password=p x": wrongRedis,
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

// TestImageOfInit: releases and prereleases have an image, and other versions do not. Without one, a step builds it.
func TestImageOfInit(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v0.2.0": "ghcr.io/capgate/capgate:v0.2.0",
		"v0.2.0-rc.1": "ghcr.io/capgate/capgate:v0.2.0-rc.1", "v0.1.0-3-gded4744-dirty": "capgate",
		"v0.0.0-20261129150000-ded474400000": "capgate", "unknown": "capgate"} {
		if got := releasedImage(version); got != want {
			t.Errorf("%s has the image %s", version, got)
		}
	}
	for image, want := range map[string]bool{"": true, "registry/gw:1": false} {
		exit, out, errs := inProcess(t, "init", "--for", "compose", filepath.Join(t.TempDir(), "it's"),
			"--image", image, "--host", "GW.example")
		if exit != 0 || strings.Contains(out, "docker build -t capgate .") != want ||
			!strings.Contains(out, `it'\''s'/compose.yaml`) {
			t.Errorf("image %q: %d %s%s", image, exit, out, errs)
		}
	}
}
