package kubernetes

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
)

// TestManifestsAreBounded: the manifests in force have a total size, also those that stay in force after their text has
// gone. Namespaces share it, so that a small one has its manifest beside those of a large one.
func TestManifestsAreBounded(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	read := 0
	m := manifests{read: func(string) (string, *call.Refusal) {
		read++
		return "c", nil
	}}
	large := func(i int) string { return fmt.Sprintf("%04d", i) + strings.Repeat(" ", mib-4) }
	known := map[string]named{"texts": {map[string]*configMap{}, nil}}
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
		in, problems := m.assign(targets, known)
		got, size := map[string]int{}, 0
		for i := range in {
			got[in[i].Namespace]++
		}
		for _, text := range m.texts() {
			size += len(text)
		}
		if !maps.Equal(got, want) || size > registry.MaxManifests {
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
	if !strings.Contains(problems, "the last valid manifest stays in force") || read != 111 {
		t.Errorf("%d texts were read; %s", read, problems)
	}
}
