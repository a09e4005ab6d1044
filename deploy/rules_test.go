package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestRules: Prometheus accepts the configuration and the rules, and alerts fire and resolve as expected.
func TestRules(t *testing.T) {
	t.Parallel()
	command(t, "promtool", "check", "config", "prometheus/prometheus.yml")
	files, err := filepath.Glob("prometheus/tests/*_test.yml")
	check.Must(t, err)
	out, _ := command(t, "promtool", append([]string{"test", "rules"}, files...)...)
	t.Log(out)

	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		tests.Write(text)
	}
	all := readAlerts(t)
	for _, r := range all {
		if !strings.Contains(tests.String(), `{alertname="`+r.Alert+`"`) {
			t.Errorf("no test expects %s to fire", r.Alert)
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		for _, a := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[a] == "" {
				t.Errorf("%s: %s is missing", r.Alert, a)
			}
		}
		if s := r.Annotations["summary"]; strings.Contains(s, "{{ $value }}") {
			t.Errorf("%s: the number is not formatted: %s", r.Alert, s)
		}
	}
	t.Logf("%d alerts", len(all))
}
