package kubernetes_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/kubernetes"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/kubetest"
	"github.com/capgate/capgate/internal/testkit/metrictest"
)

// inBoth are the Services of two namespaces.
var inBoth = kubernetes.Settings{Watch: kubernetes.Watch{Enabled: true, Namespaces: []string{"own", "tools"},
	Manifests: []string{"texts"}}}

// TestManifestsDelayNoEndpoints: while a large manifest of a namespace changes without pause, and the parser is busy
// with it, endpoints of other Services are published. The last valid manifest stays in force until the next one is
// read.
func TestManifestsDelayNoEndpoints(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	padding := strings.Repeat(" ", 900_000)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	read := func(text string) (registry.Document, *call.Refusal) {
		if len(text) > 800_000 {
			once.Do(func() { close(begun) })
			<-release
		}
		return readManifest(text)
	}
	announce(s, "own", "weather", "10.0.0.1", "capability=weather", "manifest=texts/w")
	announce(s, "tools", "words", "10.0.1.1", "capability=words")
	s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: weather"))
	r := runReading(t, s, inBoth, read)
	r.has(t, "weather 10.0.0.1:1 100 weather.own.svc", "words 10.0.1.1:1 100 words.tools.svc")

	end := sync.OnceFunc(func() { close(release) })
	defer end()
	last, version := "", 0
	change := func() {
		for range 10 {
			version++
			last = fmt.Sprint("id: weather", padding[version:])
			s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", last))
		}
	}
	change()
	check.Received(t, begun, "the parser")
	for i := range 3 {
		change()
		s.Put(plural, "tools", "words-x", kubetest.Slice("words", 2+i, kubetest.Endpoint{Addr: "10.0.1.1"}))
		change()
		r.has(t, "weather 10.0.0.1:1 100 weather.own.svc", fmt.Sprintf("words 10.0.1.1:%d 100 words.tools.svc", 2+i))
		if text := r.manifestOf(r.Members()[0].Manifest); text != "id: weather" {
			t.Errorf("%.20q is in force", text)
		}
	}
	end()
	check.Until(t, "the last manifest", func() (bool, string) {
		text := r.manifestOf(r.Members()[0].Manifest)
		return text == last, fmt.Sprintf("%.20q", text)
	})
}

// TestManifestsThatCannotBeRead: the last valid manifest stays, with a warning, and other namespaces are read. A panic
// of the parser ends one attempt.
func TestManifestsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	read := func(text string) (registry.Document, *call.Refusal) {
		if text == "panic" {
			panic("a bug")
		}
		return readManifest(text)
	}
	announce(s, "own", "weather", "10.0.0.1", "capability=weather", "manifest=texts/w")
	s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: weather"))
	r := runReading(t, s, inBoth, read)
	r.says(t, "id: weather", "")
	s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "panic"))
	s.Put(kubetest.ConfigMaps, "tools", "texts", kubetest.ConfigMap("w", "id: words"))
	announce(s, "tools", "words", "10.0.1.1", "capability=words", "manifest=texts/w")
	r.has(t, "weather 10.0.0.1:1 100 weather.own.svc", "words 10.0.1.1:1 100 words.tools.svc")
	if text := r.manifestOf(r.Members()[0].Manifest); text != "id: weather" {
		t.Errorf("%q is in force", text)
	}
	s.Delete(kubetest.Services, "tools", "words")

	s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: weather  "))
	r.says(t, "id: weather  ", "")
	s.DenyLists(kubetest.ConfigMaps, true)
	s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: weather   "))
	r.says(t, "id: weather  ", "the ConfigMap texts cannot be read: read configmaps/texts in namespace own: 403")
	s.DenyLists(kubetest.ConfigMaps, false)
	r.says(t, "id: weather   ", "")
}

// TestManifestOfAFormerCapability: a Service that announces another capability loses its former manifest.
func TestManifestOfAFormerCapability(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	s.Put(kubetest.ConfigMaps, "own", "texts", kubetest.ConfigMap("w", "id: weather"))
	announce(s, "own", "weather", "10.0.0.1", "capability=weather", "manifest=texts/w")
	r := runReading(t, s, inBoth, readManifest)
	r.says(t, "id: weather", "")
	announce(s, "own", "weather", "10.0.0.1", "capability=words", "manifest=texts/w")
	r.says(t, "none", "the ConfigMap texts has the manifest of weather, and not of words")
}

// TestFormerManifestStaysWhileAnotherIsRead: a Service that names another manifest, or its first one, keeps what it has
// until that one has been read.
func TestFormerManifestStaysWhileAnotherIsRead(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	read := func(text string) (registry.Document, *call.Refusal) {
		if text == "id: weather 2" {
			once.Do(func() { close(begun) })
			<-release
		}
		return readManifest(text[:len("id: weather")])
	}
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	texts := kubetest.ConfigMap("a", "id: weather 1")
	texts["data"].(kubetest.Object)["b"] = "id: weather 2"
	s.Put(kubetest.ConfigMaps, "own", "texts", texts)
	announce(s, "own", "weather", "10.0.0.1", "capability=weather")
	r := runReading(t, s, inBoth, read)
	r.says(t, "", "")
	announce(s, "own", "weather", "10.0.0.1", "capability=weather", "manifest=texts/b")
	check.Received(t, begun, "the parser")
	s.Put(plural, "own", "weather-x", kubetest.Slice("weather", 7, kubetest.Endpoint{Addr: "10.0.0.1"}))
	r.has(t, "weather 10.0.0.1:7 100 weather.own.svc") // published while the manifest is read
	if sum := r.Members()[0].Manifest; sum != (registry.Sum{}) {
		t.Errorf("the manifest %v", sum)
	}
	end()
	r.says(t, "id: weather", "")
}

// TestManifestsInForceOneByOne: each manifest of a ConfigMap is in force when it has been read. A warning and a metric
// have the number of the Services that wait.
func TestManifestsInForceOneByOne(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	begun, release := make(chan struct{}), make(chan struct{})
	n := 0
	read := func(text string) (registry.Document, *call.Refusal) {
		if n++; n == 2 {
			close(begun)
			<-release
		}
		return readManifest(text)
	}
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	r := runReading(t, s, inBoth, read)
	texts := kubetest.ConfigMap("a", "id: a")
	texts["data"].(kubetest.Object)["b"] = "id: b"
	announce(s, "own", "a", "10.0.0.1", "capability=a", "manifest=texts/a")
	announce(s, "own", "b", "10.0.0.2", "capability=b", "manifest=texts/b")
	s.Put(kubetest.ConfigMaps, "own", "texts", texts)
	check.Received(t, begun, "the second manifest")
	waiting := func(want float64) {
		t.Helper()
		check.Until(t, "the first manifest", func() (bool, string) {
			warnings := strings.Join(r.Warnings(), "\n")
			const text = "kubernetes: 1 Services are left out until their manifests have been read"
			return len(r.Members()) == 2-int(want) && strings.Contains(warnings, text) == (want > 0) &&
				metrictest.Read(t, r)["capgate_kubernetes_waiting_services"] == want, warnings
		})
	}
	waiting(1)
	end()
	waiting(0)
}
