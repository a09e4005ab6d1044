package kubernetes

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
)

// The annotation that names a ConfigMap with the manifest of a Service's capability: NAME, or NAME/KEY.
const (
	manifestAnnotation = annotation + "manifest"
	manifestKey        = "manifest.yaml" // the default
)

// manifests has the manifests in force. Its owner guards it.
type manifests struct {
	reader *reader
	good   map[kubeapi.Key]manifest // by Service
}

// manifest is the last valid manifest of a Service. It has no sum if the Service has no annotation.
type manifest struct {
	named, capability string // the annotations
	contents
	text textKey // with these contents; zero: it has others now
}

// ofNamespace is a manifest in a namespace, whose share it takes.
type ofNamespace struct {
	namespace string
	sum       registry.Sum
}

// assign sets the manifests of targets with the annotation, and leaves out those without a valid one. A Service keeps
// its last valid manifest, as a fleet does when its file becomes invalid, and what it has while another text is read.
// Namespaces share registry.MaxManifests.
func (m *manifests) assign(targets []Target, known map[string]named) (assigned []Target, problems []string) {
	all, needed := &manifests{m.reader, map[kubeapi.Key]manifest{}}, needs{}
	problem := func(t *Target, text string) {
		problems = append(problems, fmt.Sprintf("service %s/%s: %s: %s", t.Namespace, t.Service, manifestAnnotation,
			text))
	}
	for i := range targets {
		t := &targets[i]
		next, ok, wrong := all.of(t, known, needed)
		before, had := m.good[t.key()]
		if !ok && had && before.capability == t.Capability && (wrong == "" || before.named == t.manifest) {
			next, ok = before, true
			next.text = textKey{}
			if wrong != "" {
				wrong += "; the last valid manifest stays in force"
			}
		}
		if ok {
			all.good[t.key()] = next
		}
		if wrong != "" {
			problem(t, wrong)
		}
	}
	fitting := share(all.claims(targets), registry.MaxManifests)
	for i := range targets {
		t := targets[i]
		one, ok := all.good[t.key()]
		fits := one.sum == registry.Sum{} || fitting[ofNamespace{t.Namespace, one.sum}]
		if ok && fits && one.text != (textKey{}) {
			needed[one.text.Key].keys[one.text.key] = true
		}
		switch {
		case !ok:
		case fits && (one.document != nil || one.sum == registry.Sum{}):
			t.sum = one.sum
			assigned = append(assigned, t)
		default: // a document that fits again is read first
			delete(all.good, t.key())
			if !fits {
				problem(&t, fmt.Sprintf("the manifests of the namespace exceed its share of the %d bytes for all",
					registry.MaxManifests))
			}
		}
	}
	m.reader.want(needed)
	m.good = all.good
	return assigned, problems
}

// claims returns what the manifests of targets claim of registry.MaxManifests. Services of a namespace with the same
// text claim it once.
func (m *manifests) claims(targets []Target) (claims []claim[ofNamespace]) {
	at := map[ofNamespace]int{}
	for i := range targets {
		t := &targets[i]
		one := m.good[t.key()]
		if one.sum == (registry.Sum{}) {
			continue
		}
		key := ofNamespace{t.Namespace, one.sum}
		c := claim[ofNamespace]{key: key, namespace: t.Namespace, name: t.Service, created: t.created, size: one.size}
		if n, has := at[key]; !has {
			at[key] = len(claims)
			claims = append(claims, c)
		} else if older(c, claims[n]) < 0 {
			claims[n] = c
		}
	}
	return claims
}

// of returns the manifest of a target, which may be none, or a problem. There is neither before its ConfigMap has been
// read. It adds what the target needs.
func (m *manifests) of(t *Target, known map[string]named, needed needs) (next manifest, ok bool, problem string) {
	if t.manifest == "" {
		return manifest{capability: t.Capability}, true, ""
	}
	name, key, _ := strings.Cut(t.manifest, "/")
	maps, listed := known[name]
	if !listed {
		return next, false, fmt.Sprintf("kubernetes.watch.manifests does not list the ConfigMap %.64q", name)
	}
	object := maps.byNamespace[t.Namespace]
	if object == nil {
		if maps.pending.covers(t.Namespace) {
			return next, false, ""
		}
		return next, false, fmt.Sprintf("the namespace has no ConfigMap %s", name)
	}
	text := textKey{object.Key(), cmp.Or(key, manifestKey)}
	needed.add(text, object.ResourceVersion)
	is, read, err := m.reader.reading(text)
	switch {
	case err != nil:
		return next, false, fmt.Sprintf("the ConfigMap %s cannot be read: %v", name, err)
	case !read:
		return next, false, ""
	case is.problem != "":
		return next, false, fmt.Sprintf("the ConfigMap %s %s", name, is.problem)
	case is.capability != t.Capability:
		return next, false, fmt.Sprintf("the ConfigMap %s has the manifest of %s, and not of %s", name, is.capability,
			t.Capability)
	}
	return manifest{t.manifest, t.Capability, is.contents, text}, true, ""
}

// documents returns the manifests in force.
func (m *manifests) documents() map[registry.Sum]registry.Document {
	all := make(map[registry.Sum]registry.Document, len(m.good))
	for _, one := range m.good {
		if one.document != nil {
			all[one.sum] = one.document
		}
	}
	return all
}

// Manifest returns a manifest that members have, or nil.
func (d *Discovery) Manifest(sum registry.Sum) registry.Document {
	return d.shown.Load().manifests[sum]
}
