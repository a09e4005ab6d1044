package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
)

// TestInhibition runs an Alertmanager with the deployed configuration. It fires alerts with a common cause, and expects
// only the alert of the cause to be sent.
func TestInhibition(t *testing.T) {
	t.Parallel()
	command(t, "amtool", "check-config", "prometheus/alertmanager.yml")
	names := alertNames(t)
	text, err := os.ReadFile("prometheus/alertmanager.yml")
	check.Must(t, err)
	for _, name := range regexp.MustCompile(`Capgate\w+`).FindAllString(string(text), -1) {
		if !slices.Contains(names, name) {
			t.Errorf("alertmanager.yml names %s, which is not an alert", name)
		}
	}

	file := t.TempDir() + "/alertmanager.yml"
	check.Must(t, os.WriteFile(file, text, 0o600))
	p := start(t, "prometheus-alertmanager", "--config.file="+file, "--storage.path="+t.TempDir(),
		"--web.listen-address=127.0.0.1:0", "--cluster.listen-address=")
	addr := regexp.MustCompile(`address=(127\.0\.0\.1:\d+)`).FindStringSubmatch(p.wait(t, "Listening on"))
	if addr == nil {
		t.Fatal("the log does not have Alertmanager's address")
	}
	url := "http://" + addr[1] + "/api/v2/alerts"
	alert := func(labels ...string) map[string]string {
		all := map[string]string{"alertname": labels[0]}
		for i := 1; i < len(labels); i += 2 {
			all[labels[i]] = labels[i+1]
		}
		return all
	}
	fired := []struct {
		labels map[string]string
		muted  bool
	}{
		{alert("CapgateRedisAway", "instance", "a:8081", "severity", "page"), false},
		{alert("CapgateLimitsApart", "instance", "a:8081"), true},
		{alert("CapgatePolicyStale", "instance", "a:8081", "severity", "page"), true},
		{alert("CapgatePolicyStale", "instance", "b:8081", "severity", "page"), false},
		{alert("CapgateIdentityAway", "kind", "key", "severity", "page"), true},
		{alert("CapgateIdentityAway", "kind", "token", "severity", "page"), false},
		{alert("CapgateFleetWithoutBackends", "capability", "weather", "severity", "page"), false},
		{alert("CapgateFleetPanic", "capability", "weather"), true},
		{alert("CapgateFleetPanic", "capability", "files"), false},
		{alert("CapgateFleetErrorBudgetBurn", "capability", "weather", "severity", "page"), true},
		{alert("CapgateFleetErrorBudgetBurn", "capability", "files", "severity", "page"), false},
		{alert("CapgateFleetErrorBudgetBurn", "capability", "files", "severity", "ticket"), true},
		{alert("CapgateTenantErrorBudgetBurn", "tenant", "acme", "severity", "page"), true},
	}
	var send []map[string]any
	for _, f := range fired {
		send = append(send, map[string]any{"labels": f.labels})
	}
	body, err := json.Marshal(send)
	check.Must(t, err)
	resp, err := clienttest.HTTP.Post(url, "application/json", bytes.NewReader(body))
	check.Must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("Alertmanager rejects the alerts: %s", resp.Status)
	}
	for _, f := range fired {
		check.Succeeds(t, fmt.Sprint(f.labels), func() error { return mutes(url, f.labels, f.muted) })
	}
}

// mutes compares the state of an alert in Alertmanager with the expected one.
func mutes(url string, labels map[string]string, want bool) error {
	resp, err := clienttest.HTTP.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var all []struct {
		Labels map[string]string
		Status struct {
			State       string
			InhibitedBy []string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return err
	}
	for _, a := range all {
		if fmt.Sprint(a.Labels) != fmt.Sprint(labels) {
			continue
		}
		if got := len(a.Status.InhibitedBy) > 0; a.Status.State == "unprocessed" || got != want {
			return fmt.Errorf("it is %s, muted by %v", a.Status.State, a.Status.InhibitedBy)
		}
		return nil
	}
	return fmt.Errorf("it is not among %d alerts", len(all))
}

// alertNames returns the names of all alerts.
func alertNames(t *testing.T) (names []string) {
	t.Helper()
	for _, a := range readAlerts(t) {
		names = append(names, a.Alert)
	}
	return names
}

// alertRule is an alert in the rules.
type alertRule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func readAlerts(t *testing.T) (all []alertRule) {
	t.Helper()
	text, err := os.ReadFile("prometheus/rules/alerts.yml")
	check.Must(t, err)
	var rules struct{ Groups []struct{ Rules []alertRule } }
	check.Must(t, yaml.Unmarshal(text, &rules))
	for _, g := range rules.Groups {
		all = append(all, g.Rules...)
	}
	return all
}
