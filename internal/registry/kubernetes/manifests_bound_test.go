package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
)

// ofC is a manifest of the capability c.
type ofC struct{ size int }

// Capability implements registry.Document.
func (ofC) Capability() string { return "c" }

// Size implements registry.Document.
func (c ofC) Size() int { return c.size }

// noPause is the pause of readers that read all at once.
func noPause(time.Duration) time.Duration { return 0 }

// settle assigns manifests and reads texts until none is needed.
func (m *manifests) settle(t *testing.T, targets []Target, known map[string]named) (in []Target, problems []string) {
	t.Helper()
	for range 1000 {
		in, problems = m.assign(targets, known)
		of, wait := m.reader.next(time.Now())
		if wait > 0 {
			return in, problems
		}
		m.reader.read(t.Context(), of)
		size := 0
		for text, one := range m.reader.readings {
			if one.document != nil && !m.reader.needs[text.Key].keys[text.key] {
				size += one.size
			}
		}
		if size > maxFresh {
			t.Errorf("documents of %d bytes are held that no share has room for yet", size)
		}
	}
	t.Fatal("the reader does not end")
	return nil, nil
}

// size returns the bytes of the texts of all documents, each once.
func (m *manifests) size() (n int) {
	all := map[registry.Sum]int{}
	for _, one := range m.reader.readings {
		if one.document != nil {
			all[one.sum] = one.size
		}
	}
	for _, one := range m.good {
		if one.document != nil {
			all[one.sum] = one.size
		}
	}
	for _, size := range all {
		n += size
	}
	return n
}

// TestManifestsAreBounded: the manifests in force have a maximum total size, including those whose text has been
// removed. Namespaces share it, so that a small namespace gets its manifest in spite of a large one.
func TestManifestsAreBounded(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	read := 0
	m := manifests{reader: newReader(nil, &Options{ReadManifest: func(text string) (registry.Document, *call.Refusal) {
		read++
		return ofC{len(text)}, nil
	}}, func() {})}
	m.reader.pause = noPause
	large := func(i int) string { return fmt.Sprintf("%04d", i) + strings.Repeat(" ", mib-4) }
	known := map[string]named{"texts": {map[string]*configMap{}, nil}}
	m.reader.fetch = func(_ context.Context, of kubeapi.Key, _ string) (*configMap, error) {
		return known["texts"].byNamespace[of.Namespace], nil
	}
	put := func(namespace, version string, data map[string]string) {
		known["texts"].byNamespace[namespace] = &configMap{kubeapi.Meta{Namespace: namespace, Name: "texts",
			ResourceVersion: version}, data}
	}
	target := func(namespace string, i int) Target {
		return Target{Capability: "c", manifest: fmt.Sprintf("texts/k%d", i),
			Source: Source{Namespace: namespace, Service: fmt.Sprintf("s-%02d", i)}}
	}
	assigned := func(targets []Target, want map[string]int) string {
		t.Helper()
		in, problems := m.settle(t, targets, known)
		got := map[string]int{}
		for i := range in {
			got[in[i].Namespace]++
		}
		if size := m.size(); !maps.Equal(got, want) || size > registry.MaxManifests {
			t.Errorf("%v, %d bytes; want %v", got, size, want)
		}
		return strings.Join(problems, "\n")
	}

	data := map[string]string{}
	var targets []Target
	for i := range 70 {
		data[fmt.Sprint("k", i)] = large(i)
		targets = append(targets, target("a", i))
	}
	put("a", "1", data)
	put("z", "2", map[string]string{"k0": "small"})
	targets = append(targets, target("z", 0))
	problems := assigned(targets, map[string]int{"a": 63, "z": 1})
	const beyond = "service a/s-63: capgate.dev/manifest: the manifests of the namespace exceed its share"
	if !strings.Contains(problems, beyond) {
		t.Error(problems)
	}

	delete(known["texts"].byNamespace, "a") // its manifests stay in force
	others := map[string]string{}
	for i := range 40 {
		others[fmt.Sprint("k", i)] = large(70 + i)
		targets = append(targets, target("b", i))
	}
	put("b", "3", others)
	problems = assigned(targets, map[string]int{"a": 32, "b": 31, "z": 1})
	if !strings.Contains(problems, "the last valid manifest stays in force") || read > 2*111 {
		t.Errorf("%d texts were read; %s", read, problems)
	}
}

// TestClaims: Services of a namespace claim the same text once, at the place of the oldest of them.
func TestClaims(t *testing.T) {
	t.Parallel()
	x, y := registry.NewManifest("x").Sum, registry.NewManifest("y").Sum
	m := manifests{good: map[kubeapi.Key]manifest{}}
	var targets []Target
	for _, one := range []struct {
		namespace, service string
		created            int64
		sum                registry.Sum
		size               int
	}{{"a", "s1", 3, x, 10}, {"a", "s2", 1, x, 10}, {"a", "s3", 2, x, 10}, {"b", "s1", 4, x, 10}, {"a", "s4", 5, y, 5},
		{"a", "s5", 0, registry.Sum{}, 0}} {
		target := Target{Source: Source{Namespace: one.namespace, Service: one.service},
			created: time.Unix(one.created, 0)}
		targets = append(targets, target)
		m.good[target.key()] = manifest{contents: contents{sum: one.sum, size: one.size}}
	}
	var got []string
	for _, c := range m.claims(targets) {
		if c.key.namespace != c.namespace || c.key.sum != x && c.key.sum != y {
			t.Errorf("%+v", c)
		}
		got = append(got, fmt.Sprint(c.namespace, " ", c.name, " ", c.created.Unix(), " ", c.size))
	}
	if want := []string{"a s2 1 10", "b s1 4 10", "a s4 5 5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
