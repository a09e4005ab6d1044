package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/lib/hosts"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestTheChartAcceptsNamesOfServices: both ports accept each name that a Service has in the cluster.
func TestTheChartAcceptsNamesOfServices(t *testing.T) {
	t.Parallel()
	acceptsServices(t, chartConfig(t), "tools")
}

// TestKustomizeAcceptsNamesOfServices: the same holds for the examples, and for the files of capgate init for a
// namespace.
func TestKustomizeAcceptsNamesOfServices(t *testing.T) {
	t.Parallel()
	made, _ := initialize(t, "kubernetes", "--namespace", "agents")
	for dir, namespace := range map[string]string{"kustomize/overlays/example": "tools",
		"kustomize/overlays/kubernetes": "default", made: "agents"} {
		text, err := tool(t, "kustomize", "build", dir)
		check.Must(t, err)
		for _, o := range listObjects(t, text) {
			switch file, is := field(o, "data", "capgate.yaml").(string); {
			case is:
				var config map[string]any
				check.Must(t, yaml.Unmarshal([]byte(file), &config))
				acceptsServices(t, config, namespace)
			case o["kind"] == "Service" && dir == made && field(o, "metadata", "namespace") != namespace:
				t.Errorf("a Service is in the namespace %v", field(o, "metadata", "namespace"))
			}
		}
	}
}

// acceptsServices checks which Service names of a namespace a configuration accepts.
func acceptsServices(t *testing.T, config map[string]any, namespace string) {
	t.Helper()
	for key, name := range map[string]string{"hosts": "capgate", "admin_hosts": "capgate-admin"} {
		var given []string
		all, _ := config[key].([]any)
		for _, host := range all {
			given = append(given, host.(string))
		}
		names := hosts.New(given)
		for suffix, want := range map[string]bool{"": true, "." + namespace: true, "." + namespace + ".svc": true,
			"." + namespace + ".svc.cluster.local": true, ".com": false, ".example.com": false} {
			if names.Allows(name+suffix+":8080", nil) != want {
				t.Errorf("%s: %s is accepted: %v", key, name+suffix, !want)
			}
		}
	}
}

// TestReleasesShareTheChartsNamespaces: releases of one configuration have no object in common, even with the same
// name, or if their names and namespaces join to the same text.
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

// dashboardLink finds the UID in a link to a dashboard.
var dashboardLink = regexp.MustCompile(`/d/([^/?"]+)`)

// TestReleasesOfTheChartShareAGrafana: the dashboards of different releases have different UIDs, titles and file names.
// They link to those of their own release, and otherwise equal the committed ones.
func TestReleasesOfTheChartShareAGrafana(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, release := range [][2]string{{"capgate", "tools"}, {"capgate", "more"}, {"other", "tools"}} {
		out, err := tool(t, "helm", "template", release[0], "helm/capgate", "--kube-version", "1.34.0", "--namespace",
			release[1], "--set", "dashboards.enabled=true,dashboards.namespace=grafana", "--show-only",
			"templates/monitoring.yaml")
		check.Must(t, err)
		uids, links := map[string]bool{}, []string{}
		for _, o := range listObjects(t, out) {
			data, _ := o["data"].(map[string]any)
			for file, text := range data {
				var got, want map[string]any
				check.Must(t, yaml.Unmarshal([]byte(text.(string)), &got))
				name := file[strings.LastIndex(file, "-")+1:]
				committed, err := os.ReadFile(filepath.Join("grafana/dashboards", name))
				check.Must(t, err)
				check.Must(t, yaml.Unmarshal(committed, &want))
				uid, title := got["uid"].(string), got["title"].(string)
				if len(uid) > 40 || !strings.HasPrefix(uid, want["uid"].(string)+"-") {
					t.Errorf("the UID %q", uid)
				}
				for _, one := range []string{uid, title, file} {
					if seen[one] {
						t.Errorf("two dashboards have %q", one)
					}
					seen[one] = true
				}
				uids[uid] = true
				for _, link := range dashboardLink.FindAllStringSubmatch(text.(string), -1) {
					links = append(links, link[1])
				}
				suffix := strings.TrimPrefix(uid, want["uid"].(string)) // of the UID and of links
				got = map[string]any{}
				check.Must(t, yaml.Unmarshal([]byte(strings.ReplaceAll(text.(string), suffix, "")), &got))
				got["title"] = want["title"]
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s differs from the committed dashboard", file)
				}
			}
		}
		if len(uids) != 5 || len(links) < 20 {
			t.Errorf("%d dashboards with %d links", len(uids), len(links))
		}
		for _, uid := range links {
			if !uids[uid] {
				t.Errorf("%v: a link to %s, which is no dashboard of the release", release, uid)
			}
		}
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
