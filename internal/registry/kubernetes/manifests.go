package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/registry"
)

// The annotation that names a ConfigMap with the manifest of a Service's capability: NAME, or NAME/KEY.
const (
	manifestAnnotation = annotation + "manifest"
	manifestKey        = "manifest.yaml" // the default
)

// configMap has what is used of a ConfigMap.
type configMap struct {
	kubeapi.Meta `json:"metadata"`
	Data         map[string]string `json:"data"`
}

// configMaps are the resource of all namespaces.
var configMaps = kubeapi.Resource{Version: "v1", Plural: "configmaps"}

// maxConfigMaps bounds the ConfigMaps of one name in all namespaces.
const maxConfigMaps = 1000

// configMapMeta returns the metadata of a ConfigMap.
func configMapMeta(m *configMap) *kubeapi.Meta { return &m.Meta }

// manifests has the ConfigMaps that the configuration names, and the manifests in force. Each ConfigMap is followed
// under its name, so that the right to it is enough. Its owner guards it.
type manifests struct {
	open   func(name string) following[configMap]
	read   func(text string) (capability string, refusal *call.Refusal)
	byName map[string]*following[configMap]
	good   map[kubeapi.Key]manifest // by Service, the last valid one
	texts  map[registry.Sum]string  // of good
}

// manifest is a valid manifest of a Service.
type manifest struct {
	named, capability string // the annotations
	registry.Manifest
}

// newManifests returns manifests without ConfigMaps.
func newManifests(c *kubeapi.Client, o kubeapi.Options, read func(string) (string, *call.Refusal)) manifests {
	o.Labels, o.MaxObjects = false, maxConfigMaps
	return manifests{byName: map[string]*following[configMap]{}, read: read,
		open: func(name string) following[configMap] {
			one := configMaps
			one.Object = name
			return newFollowing(c, one, configMapMeta, o)
		}}
}

// want follows ConfigMaps in some namespaces.
func (m *manifests) want(names []string, namespaces map[string]bool) {
	for _, name := range names {
		if m.byName[name] == nil {
			f := m.open(name)
			m.byName[name] = &f
		}
	}
	for name, f := range m.byName {
		if slices.Contains(names, name) {
			f.want(namespaces, "")
		} else {
			f.want(nil, "")
		}
	}
}

// prune ends the mirrors that are not needed.
func (m *manifests) prune() {
	maps.DeleteFunc(m.byName, func(_ string, f *following[configMap]) bool {
		f.prune()
		return len(f.mirrors) == 0
	})
}

// start starts the mirrors that have not begun.
func (m *manifests) start(ctx context.Context, running *sync.WaitGroup) {
	for _, f := range m.byName {
		f.start(ctx, running)
	}
}

// all returns the wanted mirrors in a fixed order.
func (m *manifests) all() (all []mirror) {
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		all = append(all, m.byName[name].all()...)
	}
	return all
}

// assign sets the manifests of targets with the annotation, and leaves out those without a valid one. A Service keeps
// its last valid manifest, as a fleet does when its file becomes invalid.
func (m *manifests) assign(targets []Target) (assigned []Target, problems []string) {
	good, texts, size := map[kubeapi.Key]manifest{}, map[registry.Sum]string{}, 0
	known := map[string]map[kubeapi.Key]*configMap{}
	for name, f := range m.byName {
		known[name] = map[kubeapi.Key]*configMap{}
		for _, object := range f.objects() {
			known[name][object.Key()] = object
		}
	}
	for i := range targets {
		t := &targets[i]
		if t.manifest == "" {
			assigned = append(assigned, *t)
			continue
		}
		next, problem := m.of(t, known)
		if _, has := texts[next.Sum]; !has && size+len(next.Text) > registry.MaxManifests {
			next, problem = manifest{}, fmt.Sprintf("the manifests of Services have more than %d bytes",
				registry.MaxManifests)
		}
		before := m.good[t.key()]
		if next.Sum == (registry.Sum{}) && before.named == t.manifest && before.capability == t.Capability {
			next = before
			if problem != "" {
				problem += "; the last valid manifest stays in force"
			}
		}
		if next.Sum != (registry.Sum{}) {
			if _, has := texts[next.Sum]; !has {
				texts[next.Sum] = next.Text
				size += len(next.Text)
			}
			good[t.key()], t.sum = next, next.Sum
			assigned = append(assigned, *t)
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("service %s/%s: %s: %s", t.Namespace, t.Service,
				manifestAnnotation, problem))
		}
	}
	m.good, m.texts = good, texts
	return assigned, problems
}

// of returns the manifest of a target, or a problem. There is neither before its ConfigMap has been read.
func (m *manifests) of(t *Target, known map[string]map[kubeapi.Key]*configMap) (next manifest, problem string) {
	name, key, _ := strings.Cut(t.manifest, "/")
	if key == "" {
		key = manifestKey
	}
	if m.byName[name] == nil {
		return next, fmt.Sprintf("kubernetes.watch.manifests does not list the ConfigMap %.64q", name)
	}
	object := known[name][kubeapi.Key{Namespace: t.Namespace, Name: name}]
	if object == nil {
		if m.byName[name].pending().covers(t.Namespace) {
			return next, ""
		}
		return next, fmt.Sprintf("the namespace has no ConfigMap %s", name)
	}
	text := object.Data[key]
	if text == "" {
		return next, fmt.Sprintf("the ConfigMap %s has no key %.64q", name, key)
	}
	next = manifest{named: t.manifest, capability: t.Capability, Manifest: registry.NewManifest(text)}
	if before := m.good[t.key()]; before.Sum == next.Sum && before.capability == t.Capability {
		return next, "" // it was valid
	}
	capability, refusal := m.read(text)
	switch {
	case refusal != nil:
		return manifest{}, fmt.Sprintf("the ConfigMap %s has no valid manifest: %s", name,
			untrusted.Beginning(refusal.Message, problemLength))
	case capability != t.Capability:
		return manifest{}, fmt.Sprintf("the ConfigMap %s has the manifest of %s, and not of %s", name, capability,
			t.Capability)
	}
	return next, ""
}

// Manifest returns the text of a manifest that members have, or "".
func (d *Discovery) Manifest(sum registry.Sum) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.manifests.texts[sum]
}
