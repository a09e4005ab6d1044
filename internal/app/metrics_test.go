package app

import (
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/testkit/check"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt")

// everyFeature is a configuration with every feature that has metrics.
const everyFeature = `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
identity: {store: redis}
policies: {shadow: true}
audit: {to: %[1]s/audit.log}
traces: {endpoint: "http://127.0.0.1:1"}
overload: {max_memory: 1GiB}
metrics: {tenants: 7}
secret_file: %[1]s/key
approvals:
  notices: [{name: webhook, url: "http://127.0.0.1:1/x", secret_file: %[1]s/key},
    {name: siem, format: generic, url: "http://127.0.0.1:1/y", secret_file: %[1]s/key}]
shields: [{name: main, address: "127.0.0.1:1"}]
limits: {calls_per_second: 100, concurrent: 5, per_day: 7}
tenants: [{id: acme, capabilities: ["*"], keys: [{id: abcdefghijklmnop, hash: "sha256:%[2]s"}]}]
issuers: [{name: all, issuer: "https://127.0.0.1:1", audiences: [a], tenant: acme}]
fleets:
  - {capability: weather, backends: ["127.0.0.1:1"], max_concurrent: 8, policy: ask, shield: main}
  - {capability: engine-1, protocol: openparallax, backends: ["127.0.0.1:2"]}
  - {capability: files, protocol: mcp, backends: ["http://127.0.0.1:1/mcp"]}
`

// TestMetrics: the metrics of a gateway have the names, types, texts and labels that dashboards and alerts know. The
// series are those of a gateway that has not served yet.
func TestMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "key"), []byte(strings.Repeat("a", 64)+"\n"), 0o600))
	file := filepath.Join(dir, "capgate.yaml")
	text := fmt.Sprintf(everyFeature, dir, "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7")
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := settings.Load(file, settings.Overrides{})
	check.Must(t, err)
	p, err := New(s, Options{Log: io.Discard, Version: "v1"})
	check.Must(t, err)
	defer p.Close()
	got := strings.Join(append(described(p), scraped(p)...), "\n") + "\n"
	const golden = "testdata/metrics.txt"
	if *update {
		check.Must(t, os.MkdirAll("testdata", 0o755))
		check.Must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	check.Must(t, err)
	have, wanted := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for _, line := range have {
		if !slices.Contains(wanted, line) {
			t.Errorf("new: %s", line)
		}
	}
	for _, line := range wanted {
		if !slices.Contains(have, line) {
			t.Errorf("gone: %s", line)
		}
	}
}

// described lists the names, texts and labels of all metrics.
func described(p *App) (all []string) {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		p.metrics.Describe(descs)
	}()
	for d := range descs {
		if text := d.String(); strings.Contains(text, `"capgate_`) {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// scraped lists the types and series of a scrape, without values.
func scraped(p *App) (all []string) {
	w := httptest.NewRecorder()
	p.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	changing := regexp.MustCompile(`revision="[^"]*"|goversion="[^"]*"|since="[^"]*"`)
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		series := line[:max(strings.LastIndexByte(line, ' '), 0)]
		switch {
		case strings.HasPrefix(line, "# TYPE capgate_"):
			all = append(all, line)
		case strings.HasPrefix(series, "capgate_"):
			all = append(all, changing.ReplaceAllString(series, ""))
		}
	}
	return all
}
