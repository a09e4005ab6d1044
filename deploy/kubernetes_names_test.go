package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/capgate/capgate/internal/lib/hosts"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestTheChartAcceptsNamesOfServices: both ports answer at each name that a Service has in the cluster.
func TestTheChartAcceptsNamesOfServices(t *testing.T) {
	t.Parallel()
	config := chartConfig(t)
	for key, name := range map[string]string{"hosts": "capgate", "admin_hosts": "capgate-admin"} {
		var given []string
		for _, host := range config[key].([]any) {
			given = append(given, host.(string))
		}
		names := hosts.New(given)
		for suffix, want := range map[string]bool{"": true, ".tools": true, ".tools.svc": true,
			".tools.svc.cluster.local": true, ".com": false, ".example.com": false} {
			if names.Allows(name+suffix+":8080", nil) != want {
				t.Errorf("%s: %s is accepted: %v", key, name+suffix, !want)
			}
		}
	}
}

// TestReleasesShareTheChartsNamespaces: releases of one configuration have no object in common, neither those of one
// name nor those whose names and namespaces end up in the same words.
func TestReleasesShareTheChartsNamespaces(t *testing.T) {
	t.Parallel()
	values := filepath.Join(t.TempDir(), "values.yaml")
	check.Must(t, os.WriteFile(values, []byte(`
config:
  kubernetes: {watch: {namespaces: [shared, "*"]}}
dashboards: {enabled: true, namespace: shared}
networkPolicy:
  capabilities: {podLabels: {a: b}, namespace: shared}
  redis: {podLabels: {a: b}, namespace: shared}
`), 0o600))
	seen, common := map[string]string{}, 0
	for _, release := range [][2]string{{"capgate", "tools"}, {"capgate", "more"}, {"capgate", "a-b"},
		{"capgate-a", "b"}} {
		out, err := tool(t, "helm", "template", release[0], "helm/capgate", "--kube-version", "1.34.0", "--namespace",
			release[1], "--values", values)
		check.Must(t, err)
		for _, o := range listObjects(t, out) {
			namespace := field(o, "metadata", "namespace")
			if namespace == "shared" || namespace == nil {
				common++
			}
			key := fmt.Sprint(o["kind"], " ", namespace, "/", field(o, "metadata", "name"))
			if other := seen[key]; other != "" {
				t.Errorf("%s is of %s and %v", key, other, release)
			}
			seen[key] = fmt.Sprint(release)
		}
	}
	if common != 4*(2+2+2+5) { // roles there and of the cluster with their bindings, policies, dashboards
		t.Errorf("%d objects outside of the releases' namespaces", common)
	}
}

// TestTheChartKeepsManifestsAsTheyAre: the text of a manifest may begin with spaces.
func TestTheChartKeepsManifestsAsTheyAre(t *testing.T) {
	t.Parallel()
	const manifest = "  id: a\n  tools: [{name: b, description: \"<&> {{ x }}\"}]\n\n"
	all := renderChart(t, "--set-literal", "manifests.a="+manifest)
	if got := field(all["ConfigMap capgate-manifests"], "data", "a.yaml"); got != manifest {
		t.Errorf("the manifest is %q", got)
	}
}
