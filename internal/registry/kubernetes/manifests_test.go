package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
	"github.com/capgate/capgate/internal/testkit/metrictest"
)

// document is a text such as "id: weather".
type document string

// Capability implements registry.Document.
func (d document) Capability() string {
	return strings.TrimRight(strings.TrimPrefix(string(d), "id: "), " ")
}

// Size implements registry.Document.
func (d document) Size() int { return len(d) }

// readManifest accepts documents.
func readManifest(text string) (registry.Document, *call.Refusal) {
	if !strings.HasPrefix(text, "id: ") {
		return nil, &call.Refusal{Message: "no id"}
	}
	return document(text), nil
}

// manifestOf returns the text of a manifest; "": none.
func (r *running) manifestOf(sum registry.Sum) string {
	text, _ := r.Manifest(sum).(document)
	return string(text)
}

// says waits for the text of the manifest of the only backend, and a warning; "": none.
func (r *running) says(t *testing.T, manifest, warning string) {
	t.Helper()
	check.Until(t, fmt.Sprintf("the manifest %q, the warning %q", manifest, warning), func() (bool, string) {
		m, texts := r.Members(), strings.Join(r.Warnings(), "\n")
		got := "none"
		if len(m) == 1 {
			got = r.manifestOf(m[0].Manifest)
		}
		return got == manifest && strings.Contains(texts, warning) && (warning == "") == (texts == ""), got + texts
	})
}

// TestManifests: a Service has the manifest of a ConfigMap that the configuration names. A change takes effect, and the
// last valid manifest stays.
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
	for _, query := range s.Queries(kubetest.ConfigMaps) {
		if query.Get("fieldSelector") != "metadata.name=texts" {
			t.Errorf("a request for ConfigMaps: %v", query)
		}
	}
	watch.Manifests = []string{"another"}
	r.Set(kubernetes.Settings{Watch: watch})
	r.says(t, "id: weather ", "")
	announce(s, "own", "weather", "10.0.0.1", "capability=weather")
	r.says(t, "", "")
	if r.Manifest(registry.NewManifest("id: weather ").Sum) != nil {
		t.Error("the text of a manifest that no Service has is kept")
	}
}

// TestManifestsAreReadOnce: a manifest is read once, however many Services name it, even if it is invalid or of another
// capability. Warnings and metrics do not wait for manifests.
func TestManifestsAreReadOnce(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	for i := range 4 { // with the one below, all that the warnings show
		announce(s, "own", fmt.Sprint("a-", i), fmt.Sprint("10.0.0.", i+1), "capability=weather", "manifest=texts/w")
		announce(s, "own", fmt.Sprint("b-", i), fmt.Sprint("10.0.1.", i+1), "capability=words", "manifest=texts/v")
	}
	announce(s, "own", "plain", "10.0.2.1", "capability=plain")
	var d atomic.Pointer[running]
	var mu sync.Mutex
	reads, waited := map[string]int{}, 0
	read := func(text string) (registry.Document, *call.Refusal) {
		mu.Lock()
		reads[text]++
		mu.Unlock()
		shown := make(chan struct{})
		go func() {
			defer close(shown)
			d.Load().Warnings()
			metrictest.Read(t, d.Load())
		}()
		select {
		case <-shown:
		case <-time.After(check.Patience):
			mu.Lock()
			waited++
			mu.Unlock()
		}
		return readManifest(text)
	}
	watch := kubernetes.Watch{Enabled: true, Manifests: []string{"texts"}}
	r := runReading(t, s, kubernetes.Settings{Watch: watch}, read)
	d.Store(r)
	texts := kubetest.ConfigMap("w", "not valid")
	texts["data"].(kubetest.Object)["v"] = "id: another"
	s.Put(kubetest.ConfigMaps, "own", "texts", texts)
	for i := range 5 {
		s.Put(plural, "own", "plain-x", kubetest.Slice("plain", i+1, kubetest.Endpoint{Addr: "10.0.2.1"}))
		r.has(t, fmt.Sprintf("plain 10.0.2.1:%d 100 plain.own.svc", i+1))
	}
	r.warns(t, "no valid manifest: no id", "manifest of another")
	announce(s, "own", "c", "10.0.3.1", "capability=other", "manifest=texts/x")
	for _, text := range []string{"id: second", "id: third"} { // all of a version is read before the next one is
		texts["data"].(kubetest.Object)["x"] = text
		s.Put(kubetest.ConfigMaps, "own", "texts", texts)
		r.warns(t, "no valid manifest: no id", "manifest of another", "manifest of "+text[len("id: "):])
	}
	s.Put(plural, "own", "plain-x", kubetest.Slice("plain", 9, kubetest.Endpoint{Addr: "10.0.2.1"}))
	r.has(t, "plain 10.0.2.1:9 100 plain.own.svc")
	mu.Lock()
	defer mu.Unlock()
	want := map[string]int{"not valid": 1, "id: another": 1, "id: second": 1, "id: third": 1}
	if !maps.Equal(reads, want) || waited != 0 {
		t.Errorf("%v reads; warnings waited %d times", reads, waited)
	}
}

// warns waits until each part is in a warning.
func (r *running) warns(t *testing.T, parts ...string) {
	t.Helper()
	check.Until(t, fmt.Sprintf("warnings with %q", parts), func() (bool, string) {
		all := strings.Join(r.Warnings(), "\n")
		missing := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(all, part) })
		return !missing, all
	})
}
