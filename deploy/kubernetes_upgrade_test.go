package deploy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// upgraded returns a function that renders the chart for a namespace with access to a cluster with the given objects,
// by their paths.
func upgraded(t *testing.T, cluster map[string]string) func(namespace string, args ...string) objects {
	t.Helper()
	answers := map[string]string{
		"/version": `{"major":"1","minor":"34","gitVersion":"v1.34.0"}`,
		"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":` +
			`"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":` +
			`[{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["get"]}]}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":` +
			`[{"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["get"]}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text, found := answers[r.URL.Path]
		if !found {
			text, found = cluster[r.URL.Path]
		}
		if !found {
			w.WriteHeader(http.StatusNotFound)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, _ = fmt.Fprint(w, text)
	}))
	t.Cleanup(server.Close)
	return func(namespace string, args ...string) objects {
		out, err := tool(t, "helm", append([]string{"template", "capgate", "helm/capgate", "--namespace", namespace,
			"--kube-version", "1.34.0", "--dry-run=server", "--kube-apiserver", server.URL}, args...)...)
		check.Must(t, err)
		return parseObjects(t, out)
	}
}

// TestAnUpgradeKeepsThePassword: helm finds the secret of Redis in the cluster, and renders its password again.
func TestAnUpgradeKeepsThePassword(t *testing.T) {
	t.Parallel()
	render := upgraded(t, map[string]string{
		"/api/v1/namespaces/tools/secrets/capgate-redis": `{"kind":"Secret","apiVersion":"v1","metadata":` +
			`{"name":"capgate-redis","namespace":"tools"},"data":{"password":"` +
			base64.StdEncoding.EncodeToString([]byte("kept")) + `"}}`,
	})
	password := func(namespace string) any {
		all := render(namespace, "--set", "redis.enabled=true", "--show-only", "templates/redis.yaml")
		return field(all["Secret capgate-redis"], "stringData", "password")
	}
	if got := password("tools"); got != "kept" {
		t.Errorf("the password of an upgrade is %v", got)
	}
	if first, second := password("other"), password("other"); first == second || len(fmt.Sprint(first)) != 40 {
		t.Errorf("the passwords of two installations are %v and %v", first, second)
	}
}

// TestAnUpgradeOfTheChartKeepsThePods: with an autoscaler, an upgrade renders the current number of pods. An
// installation leaves the number to the autoscaler.
func TestAnUpgradeOfTheChartKeepsThePods(t *testing.T) {
	t.Parallel()
	render := upgraded(t, map[string]string{
		"/apis/apps/v1/namespaces/tools/deployments/capgate": `{"kind":"Deployment","apiVersion":"apps/v1",` +
			`"metadata":{"name":"capgate","namespace":"tools"},"spec":{"replicas":7}}`,
	})
	for _, test := range []struct {
		namespace, values string
		want              any
	}{
		{"tools", "autoscaling.enabled=true", 7},
		{"tools", "keda.enabled=true", 7},
		{"tools", "replicas=2", 2},
		{"other", "autoscaling.enabled=true", nil},
	} {
		all := render(test.namespace, "--set", "redis.existingSecret=r,"+test.values)
		if got := field(all["Deployment capgate"], "spec", "replicas"); got != test.want {
			t.Errorf("%s in %s: %v replicas, want %v", test.values, test.namespace, got, test.want)
		}
	}
}

// TestTheChartRestartsRedisForItsUsers: a change of the users replaces the pod of the chart's Redis; a change of the
// password does not.
func TestTheChartRestartsRedisForItsUsers(t *testing.T) {
	t.Parallel()
	pod := func(chart string) any {
		out, err := tool(t, "helm", "template", "capgate", chart, "--kube-version", "1.34.0", "--set",
			"redis.enabled=true")
		check.Must(t, err)
		return field(parseObjects(t, out)["StatefulSet capgate-redis"], "spec", "template")
	}
	first := pod("helm/capgate")
	if !reflect.DeepEqual(first, pod("helm/capgate")) {
		t.Error("another password changes the pod")
	}
	dir := t.TempDir()
	check.Must(t, os.CopyFS(dir, os.DirFS("helm/capgate")))
	users := filepath.Join(dir, "files/redis.acl")
	text, err := os.ReadFile(users)
	check.Must(t, err)
	check.Must(t, os.WriteFile(users, []byte(replace(t, string(text), " +ttl", "")), 0o600))
	if reflect.DeepEqual(first, pod(dir)) {
		t.Error("other users do not change the pod")
	}
}
