package cli

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/testkit/kubereal"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// grant gives the service account a role in the namespace tools.
func grant(t *testing.T, api *kubereal.Cluster, name string, rules ...any) {
	t.Helper()
	const version = "rbac.authorization.k8s.io/v1"
	meta := kubereal.Object{"name": name, "namespace": "tools"}
	api.Apply(t, kubereal.Object{"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules},
		kubereal.Object{"apiVersion": version, "kind": "RoleBinding", "metadata": meta,
			"roleRef":  kubereal.Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			"subjects": []any{kubereal.Object{"kind": "ServiceAccount", "name": "capgate", "namespace": "default"}}})
}

// TestAPIServerManifests: a manifest in a ConfigMap of a real API server changes, becomes large, cannot be read and
// disappears, and no call fails.
func TestAPIServerManifests(t *testing.T) {
	api := kubereal.Start(t)
	api.Namespace(t, "tools")
	api.CreateAccount(t, "default", "capgate")
	account := api.Mount(t, t.TempDir(), "default", "capgate")
	follow := []any{"list", "watch"}
	grant(t, api, "backends",
		kubereal.Object{"apiGroups": []any{"discovery.k8s.io"}, "resources": []any{"endpointslices"}, "verbs": follow},
		kubereal.Object{"apiGroups": []any{""}, "resources": []any{"services"}, "verbs": follow})
	texts := func() {
		grant(t, api, "texts", kubereal.Object{"apiGroups": []any{""}, "resources": []any{"configmaps"},
			"resourceNames": []any{"texts"}, "verbs": follow})
	}
	const addr = "10.64.1.1"
	startBackend(t, net.JoinHostPort(addr, strconv.Itoa(podPort)))
	api.Put(kubetest.EndpointSlices, "tools", "caps-1", kubetest.Slice("caps", podPort,
		kubetest.Endpoint{Addr: addr, Pod: "pod-1"}))
	api.Put(kubetest.Services, "tools", "caps", kubetest.Service(nil, "capgate.dev/capability=caps",
		"capgate.dev/manifest=texts/caps.yaml"))
	manifest := func(padding string) (text string, o kubereal.Object) {
		text = "id: caps\nimage: i\n#" + padding + "\n"
		return text, kubetest.ConfigMap("caps.yaml", text)
	}
	_, first := manifest("first")
	api.Put(kubetest.ConfigMaps, "tools", "texts", first)

	config := strings.Replace(configOf(fmt.Sprintf("kubernetes: {api: {address: 'https://%s', ca_file: %s, "+
		"token_file: %s}, watch: {namespaces: [tools], manifests: [texts], policy: allow}}\n",
		api.Addr, account.CAFile(), account.TokenFile()), "127.0.0.1:1"), "capability: caps", "capability: other", 1)
	gateway, public, admin := serve(t, nil, "--config", writeConfig(t, config))
	ready := "http://" + admin + "/readyz"
	waitPage(t, ready, "configmaps/texts in namespace tools cannot be followed")
	if _, body := page(t, ready+"?verbose"); strings.Contains(body, `"capability":"caps"`) {
		t.Errorf("a Service whose manifest is not known: %s", body)
	}
	texts()
	waitBackends(t, admin, 1)
	calls := startLoad(t, 4, dial(t, public))

	inForce := func(text string) { gateway.stderr.wait(t, gateway, registry.NewManifest(text).Sum.String()) }
	change := func(padding string) {
		text, o := manifest(padding)
		api.Put(kubetest.ConfigMaps, "tools", "texts", o)
		inForce(text)
	}
	calls.during(t, "the manifest changes", func() {
		for i := range 5 {
			change(fmt.Sprint(i))
		}
	})
	calls.during(t, "the manifest is large", func() { change(strings.Repeat("x", 1_000_000)) })
	_, o := manifest(strings.Repeat("x", 1<<20))
	o["metadata"] = kubereal.Object{"name": "texts", "namespace": "tools"}
	if err := api.Validate(o); err == nil || !strings.Contains(err.Error(), "Too long") {
		t.Errorf("a ConfigMap of more than 1 MiB: %.300v", err)
	}
	calls.during(t, "the ConfigMap is deleted", func() {
		api.Delete(kubetest.ConfigMaps, "tools", "texts")
		waitPage(t, ready, "the namespace has no ConfigMap texts; the last valid manifest stays in force")
		waitBackends(t, admin, 1)
		change("again")
	})
	calls.during(t, "the role is missing", func() {
		api.Delete("rolebindings", "tools", "texts")
		text, o := manifest("denied")
		api.Put(kubetest.ConfigMaps, "tools", "texts", o)
		waitPage(t, ready, "the ConfigMap texts cannot be read")
		waitBackends(t, admin, 1)
		texts()
		inForce(text)
	})
	calls.end()
	gateway.stop(t)
}
