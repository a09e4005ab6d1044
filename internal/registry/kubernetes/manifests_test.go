package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
)

// readManifest accepts texts such as "id: weather".
func readManifest(text string) (string, *call.Refusal) {
	id, ok := strings.CutPrefix(text, "id: ")
	if !ok {
		return "", &call.Refusal{Message: "no id"}
	}
	return strings.TrimRight(id, " "), nil
}

// says waits for the text of the manifest of the only backend, and a warning; "": none.
func (r *running) says(t *testing.T, manifest, warning string) {
	t.Helper()
	check.Until(t, fmt.Sprintf("the manifest %q, the warning %q", manifest, warning), func() (bool, string) {
		m, texts := r.Members(), strings.Join(r.Warnings(), "\n")
		got := "none"
		if len(m) == 1 {
			got = r.Manifest(m[0].Manifest)
		}
		return got == manifest && strings.Contains(texts, warning) && (warning == "") == (texts == ""), got + texts
	})
}

// TestManifests: a Service brings the manifest of a ConfigMap that the configuration names. A change takes effect, and
// the last valid one stays.
func TestManifests(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	announce(s, "own", "weather", "10.0.0.1", "capability=weather", "manifest=texts/w")
	s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: weather"))
	s.Put(kubetest.ConfigMaps, "own", "another", kubetest.ConfigMap("manifest.yaml", "id: weather "))
	s.Put(kubetest.ConfigMaps, "tools", "texts", kubetest.ConfigMap("w", "of another namespace"))
	watch := kubernetes.Watch{Enabled: true, Manifests: []string{"texts"}}
	r := run(t, s, kubernetes.Settings{Watch: watch})
	r.says(t, "id: weather", "")

	const kept = "; the last valid manifest stays in force"
	for name, one := range map[string]struct {
		change func()
		reason string
	}{
		"not valid": {func() { s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "x")) },
			"service own/weather: capgate.dev/manifest: the ConfigMap texts has no valid manifest: no id"},
		"of another capability": {func() {
			s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: words"))
		}, "the ConfigMap texts has the manifest of words, and not of weather"},
		"without the key": {func() { s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("v", "x")) },
			`the ConfigMap texts has no key "w"`},
		"gone": {func() { s.Delete(kubetest.ConfigMaps, "own", "texts") }, "the namespace has no ConfigMap texts"},
	} {
		one.change()
		r.says(t, "id: weather", one.reason+kept)
		next := "id: weather  " + strings.Repeat(" ", len(name))
		s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", next))
		r.says(t, next, "")
		s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: weather"))
		r.says(t, "id: weather", "")
	}

	announce(s, "own", "weather", "10.0.0.1", "capability=weather", "manifest=another")
	r.says(t, "none", `kubernetes.watch.manifests does not list the ConfigMap "another"`)
	if n := s.Requests("list", "configmaps"); n != 1 {
		t.Errorf("%d lists of ConfigMaps, want that of the named one", n)
	}
	watch.Manifests = []string{"another"}
	r.Set(kubernetes.Settings{Watch: watch})
	r.says(t, "id: weather ", "")
	announce(s, "own", "weather", "10.0.0.1", "capability=weather")
	r.says(t, "", "")
	if r.Manifest(registry.NewManifest("id: weather ").Sum) != "" {
		t.Error("the text of a manifest that no Service has is kept")
	}
}
