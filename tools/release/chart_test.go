package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// helm runs helm of tools/helm with its own home, and returns its standard output.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	find := exec.CommandContext(t.Context(), "go", "-C", "../helm", "tool", "-n", "helm")
	find.Env = append(find.Environ(), "CGO_ENABLED=0")
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(command(t, find)), args...)
	cmd.Env = append(cmd.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	return command(t, cmd)
}

// TestTheChartIsInstallable: two packages of the chart have the same bytes. helm pulls the chart from a registry by its
// version, and renders it with the image of the release.
func TestTheChartIsInstallable(t *testing.T) {
	t.Parallel()
	r := chart(t)
	if other := chart(t); !bytes.Equal(read(t, r.out, r.chartFile()), read(t, other.out, other.chartFile())) ||
		!bytes.Equal(read(t, r.out, r.layoutFile(chartOCI)), read(t, other.out, other.layoutFile(chartOCI))) {
		t.Error("two packages of the chart differ")
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/edge/charts/capgate"
	must(t, push(t.Context(), []string{r.file(r.layoutFile(chartOCI)), repository}, new(bytes.Buffer)))

	dir := t.TempDir()
	helm(t, "pull", "oci://"+repository, "--version", r.number(), "--plain-http", "--destination", dir)
	if !bytes.Equal(read(t, dir, r.chartFile()), read(t, r.out, r.chartFile())) {
		t.Error("the pulled chart is another one")
	}
	file := filepath.Join(dir, r.chartFile())
	meta := helm(t, "show", "chart", file)
	for _, want := range []string{"name: capgate\n", "version: 0.1.0\n", "appVersion: v0.1.0\n"} {
		if !strings.Contains(meta, want) {
			t.Errorf("the chart has no %q:\n%s", want, meta)
		}
	}
	rendered := helm(t, "template", "capgate", file, "--kube-version", "1.34.0", "--set", "dashboards.enabled=true")
	for _, want := range []string{`image: "ghcr.io/capgate/capgate:v0.1.0"`, "capgate.default-overview.json",
		"helm.sh/chart: capgate-0.1.0\n"} {
		if !strings.Contains(rendered, want) {
			t.Errorf("the chart renders no %s", want)
		}
	}
	helm(t, "lint", "--strict", file)
}

// chart makes only the chart of a release.
func chart(t *testing.T) *release {
	t.Helper()
	r := &release{version: testVersion, source: "../..", out: t.TempDir(), work: t.TempDir(),
		date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), commit: "0123456789abcdef"}
	must(t, r.makeChart(t.Context()))
	return r
}

// TestTheChartNeedsItsVersions: a Chart.yaml without both versions is rejected.
func TestTheChartNeedsItsVersions(t *testing.T) {
	t.Parallel()
	r := &release{version: testVersion, source: t.TempDir()}
	dir := filepath.Join(r.source, chartDir)
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("version: 0.0.0\n"), 0o600))
	if _, err := r.chartMeta(); err == nil || !strings.Contains(err.Error(), "no single version") {
		t.Errorf("%v", err)
	}
}
