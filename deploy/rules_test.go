package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The configuration and the rules are what Prometheus understands, and alerts fire when
// they should, and end.
func TestRules(t *testing.T) {
	t.Parallel()
	command(t, "promtool", "check", "config", "prometheus/prometheus.yml")
	files, err := filepath.Glob("prometheus/tests/*_test.yml")
	must(t, err)
	out, _ := command(t, "promtool", append([]string{"test", "rules"}, files...)...)
	t.Log(out)

	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		tests.Write(text)
	}
	text, err := os.ReadFile("prometheus/rules/alerts.yml")
	must(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal(text, &rules))
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			if !strings.Contains(tests.String(), `{alertname="`+r.Alert+`"`) {
				t.Errorf("no test expects %s to fire", r.Alert)
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" || r.Annotations["summary"] == "" ||
				r.Annotations["description"] == "" {
				t.Errorf("%s: severity, summary or description is missing", r.Alert)
			}
		}
	}
	t.Logf("%d alerts", n)
}
