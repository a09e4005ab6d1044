package cli

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// bundleOf returns the files of an archive by their name.
func bundleOf(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	check.Must(t, err)
	defer f.Close()
	compressed, err := gzip.NewReader(f)
	check.Must(t, err)
	all := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		check.Must(t, err)
		text, err := io.ReadAll(archive)
		check.Must(t, err)
		all[path.Base(h.Name)] = string(text)
	}
}

// TestSupportBundle: the archive has the state of the gateway, and its configuration and log without secrets.
// TestSecretsComeOutNowhere searches an archive for secrets.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		name = filepath.Join(dir, name)
		check.Must(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	config := "# comment of a person\nshields: [{name: a, url: 'https://shield.test/path?token=ab@abc'}] # another\n" +
		"redis: embedded\n"
	file := put("capgate.yaml", configOf(config, backend))
	log := put("log", strings.Repeat("x", maxLog)+"\nthe last line\n")
	_, _, admin := serve(t, nil, "--config", file)
	to := filepath.Join(dir, "bundle.tar.gz")
	exit, out, errs := runProgram(t, nil, "support-bundle", "--admin", admin, "--config", file, "--log", log,
		"--to", to)
	if exit != 0 || !strings.Contains(out, to) || errs != "" {
		t.Fatalf("%d %s%s", exit, out, errs)
	}
	parts := bundleOf(t, to)
	for name, want := range map[string]string{"version.json": `"go": "go1`, "capgate.yaml": "shield.test/(removed)",
		"log.txt": "the last line\n", "ready.json": `"ready":true`, "fleets.json": backend,
		"summary.json": `"replicas"`, "limits.json": "{", "capabilities.json": "caps",
		"metrics.txt":    "capgate_build_info",
		"goroutines.txt": "goroutine profile", "heap.pprof": ""} {
		if text, there := parts[name]; !there || !strings.Contains(text, want) {
			t.Errorf("%s has no %q: %.300s", name, want, text)
		}
	}
	if text := parts["capgate.yaml"]; strings.Contains(text, "abc") || strings.Contains(text, "person") {
		t.Error(text)
	}
	if parts["log.txt"] != "the last line\n" {
		t.Errorf("%d bytes of the log", len(parts["log.txt"]))
	}
	if exit, _, errs := runProgram(t, nil, "support-bundle", "--admin", admin, "--to", to); exit != exitRefused ||
		!strings.Contains(errs, "exists") {
		t.Errorf("a file that exists: %d %s", exit, errs)
	}
	lost := filepath.Join(dir, "lost.tar.gz")
	invalid := put("invalid.yaml", "redis: redis://u:hunter2@host:port\n")
	exit, _, errs = runProgram(t, nil, "support-bundle", "--admin", "127.0.0.1:1", "--config", invalid, "--to", lost)
	parts = bundleOf(t, lost)
	if exit != exitUnreachable || !strings.Contains(parts["errors.txt"], "metrics.txt: ") || len(parts) != 2 ||
		!strings.Contains(parts["errors.txt"], "not valid") || strings.Contains(parts["errors.txt"], "hunter2") {
		t.Errorf("no gateway, and no configuration: %d %s %v", exit, errs, parts)
	}
}
