package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// listObjects returns all objects, also those of one name in several namespaces.
func listObjects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		for _, o := range parseObjects(t, part) {
			all = append(all, o)
		}
	}
	return all
}

// TestChartGivesRights: the service account may list and watch the slices in the namespaces of fleets, and nothing
// else. Without such a fleet it has neither a role nor a token.
func TestChartGivesRights(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "values.yaml")
	check.Must(t, os.WriteFile(file, []byte("config:\n  fleets:\n  - {capability: a, kubernetes: {service: a}}\n"+
		"  - {capability: b, kubernetes: {namespace: other, selector: x}}\n"+
		"  - {capability: c, kubernetes: {namespace: other, service: c}}\n  - {capability: d, backends: ['d:1']}\n"),
		0o600))
	for _, test := range []struct {
		args       []string
		namespaces []string
	}{
		{nil, nil},
		{[]string{"--values", file}, []string{"other", "tools"}},
	} {
		text, err := tool(t, "helm", append([]string{"template", "capgate", "helm/capgate", "--kube-version", "1.34.0",
			"--namespace", "tools"}, test.args...)...)
		check.Must(t, err)
		roles, bindings := map[string]any{}, map[string]any{}
		all := parseObjects(t, text)
		for _, o := range listObjects(t, text) {
			namespace := fmt.Sprint(field(o, "metadata", "namespace"))
			switch o["kind"] {
			case "Role":
				roles[namespace] = o["rules"]
			case "RoleBinding":
				bindings[namespace] = o["subjects"]
			case "ClusterRole", "ClusterRoleBinding":
				t.Errorf("%v", o)
			}
		}
		if got := slices.Sorted(maps.Keys(roles)); !slices.Equal(got, test.namespaces) {
			t.Errorf("roles in %q, want %q", got, test.namespaces)
		}
		for _, namespace := range test.namespaces {
			rules := []any{map[string]any{"apiGroups": []any{"discovery.k8s.io"}, "resources": []any{"endpointslices"},
				"verbs": []any{"list", "watch"}}}
			if !reflect.DeepEqual(roles[namespace], rules) {
				t.Errorf("the role in %s is %v", namespace, roles[namespace])
			}
			subjects := []any{map[string]any{"kind": "ServiceAccount", "name": "capgate", "namespace": "tools"}}
			if !reflect.DeepEqual(bindings[namespace], subjects) {
				t.Errorf("the role in %s is bound to %v", namespace, bindings[namespace])
			}
		}
		token := field(all["Deployment capgate"], "spec", "template", "spec", "automountServiceAccountToken")
		if token != (len(test.namespaces) > 0) {
			t.Errorf("%q: a token is mounted: %v", test.namespaces, token)
		}
	}
}
