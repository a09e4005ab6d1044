package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// listObjects returns all objects, including those with the same name in several namespaces.
func listObjects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		for _, o := range parseObjects(t, part) {
			all = append(all, o)
		}
	}
	return all
}

// TestChartGivesRights: the service account may list and watch the slices in the namespaces of fleets, the Services in
// those of kubernetes.watch, and the named ConfigMaps, and nothing else. Without fleets and kubernetes.watch, it has
// neither a role nor a token.
func TestChartGivesRights(t *testing.T) {
	t.Parallel()
	const fleets = "  fleets:\n  - {capability: a, kubernetes: {service: a}}\n" +
		"  - {capability: b, kubernetes: {namespace: other, selector: x}}\n" +
		"  - {capability: c, kubernetes: {namespace: other, service: c}}\n  - {capability: d, backends: ['d:1']}\n"
	const slicesOnly, both = "discovery.k8s.io/endpointslices", "discovery.k8s.io/endpointslices /services"
	for config, want := range map[string]map[string]string{ // permissions by kind and namespace
		"":     {},
		fleets: {"Role other": slicesOnly, "Role tools": slicesOnly},
		"  kubernetes: {watch: {namespaces: [other]}}\n" + fleets:    {"Role other": both, "Role tools": slicesOnly},
		"  kubernetes: {watch: {}}\n  fleets: []\n":                  {"Role tools": both},
		"  kubernetes: {watch: {namespaces: ['*']}}\n  fleets: []\n": {"ClusterRole <nil>": both},
		"  kubernetes: {watch: {namespaces: [other], manifests: [texts, more]}}\n" + fleets: {
			"Role other": both + " /configmaps [texts more]", "Role tools": slicesOnly},
	} {
		var args []string
		if config != "" {
			file := filepath.Join(t.TempDir(), "values.yaml")
			check.Must(t, os.WriteFile(file, []byte("config:\n"+config), 0o600))
			args = []string{"--values", file}
		}
		text, err := tool(t, "helm", append([]string{"template", "capgate", "helm/capgate", "--kube-version", "1.34.0",
			"--namespace", "tools"}, args...)...)
		check.Must(t, err)
		got := map[string]string{}
		for _, o := range listObjects(t, text) {
			kind, isBinding := strings.CutSuffix(fmt.Sprint(o["kind"]), "Binding")
			where := fmt.Sprint(kind, " ", field(o, "metadata", "namespace"))
			name := "capgate"
			if where != "Role tools" {
				name = "capgate.tools" // releases with the same name in two namespaces have separate roles
			}
			switch {
			case isBinding:
				if field(o, "metadata", "name") != name || field(o, "roleRef", "name") != name ||
					field(o, "roleRef", "kind") != kind || field(o, "subjects", 0, "name") != "capgate" ||
					field(o, "subjects", 0, "namespace") != "tools" {
					t.Errorf("%v", o)
				}
			case strings.HasSuffix(kind, "Role"):
				if got := field(o, "metadata", "name"); got != name {
					t.Errorf("%s: name %v, want %s", where, got, name)
				}
				var rights []string
				for i := range o["rules"].([]any) {
					if verbs := field(o, "rules", i, "verbs"); !reflect.DeepEqual(verbs, []any{"list", "watch"}) {
						t.Errorf("%s: verbs %v", where, verbs)
					}
					rights = append(rights, fmt.Sprint(field(o, "rules", i, "apiGroups", 0), "/",
						field(o, "rules", i, "resources", 0)))
					if names := field(o, "rules", i, "resourceNames"); names != nil {
						rights = append(rights, fmt.Sprint(names))
					}
				}
				got[where] = strings.Join(rights, " ")
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
		token := field(parseObjects(t, text)["Deployment capgate"], "spec", "template", "spec",
			"automountServiceAccountToken")
		if token != (len(want) > 0) {
			t.Errorf("%s: a token is mounted: %v", config, token)
		}
	}
}
