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
	// waiting is the number of Services that are left out until their manifests have been read.
	waiting int
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
	all, needed := &manifests{reader: m.reader, good: map[kubeapi.Key]manifest{}}, needs{}
	problem := func(t *Target, text string) {
		problems = append(problems, fmt.Sprintf("service %s/%s: %s: %s", t.Namespace, t.Service, manifestAnnotation,
			text))
	}
	for i := range targets {
		t := &targets[i]
		next := all.of(t, known, needed)
		before, had := m.before(t)
		switch {
		case next.ok && next.document == nil && had && before.sum == next.sum:
			next.contents = before.contents // the reader does not hold it
		case !next.ok && had && (next.problem == "" || next.failed || before.named == t.manifest):
			next.manifest, next.ok = before, true
			next.text = textKey{}
		}
		if next.ok {
			all.good[t.key()] = next.manifest
		} else if next.problem == "" {
			all.waiting++
		}
		switch {
		case next.problem != "" && next.ok && next.sum == (registry.Sum{}):
			problem(t, next.problem+"; the Service stays without one")
		case next.problem != "" && next.ok:
			problem(t, next.problem+"; the last valid manifest stays in force")
		case next.problem != "":
			problem(t, next.problem)
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
		case !fits:
			delete(all.good, t.key())
			problem(&t, fmt.Sprintf("the manifests of the namespace exceed its share of the %d bytes of memory for all",
				registry.MaxManifests))
		default: // it is read again first
			delete(all.good, t.key())
			if before, had := m.before(&t); had {
				before.text = textKey{}
				all.good[t.key()], t.sum = before, before.sum
				assigned = append(assigned, t)
			} else {
				all.waiting++
			}
		}
	}
	m.reader.want(needed)
	m.good, m.waiting = all.good, all.waiting
	return assigned, problems
}

// before returns the previous manifest of a target, if it is of the same capability.
func (m *manifests) before(t *Target) (before manifest, had bool) {
	before, had = m.good[t.key()]
	return before, had && before.capability == t.Capability
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

// looked is the result of looking up the manifest that a target names. Before its ConfigMap has been read, it has
// neither a manifest nor a problem.
type looked struct {
	manifest
	ok      bool // the manifest may be in force, also with a problem
	problem string
	failed  bool // the problem is of the API server, and not of the manifest
}

// of returns the manifest of a target, which may be none. It adds what the target needs.
func (m *manifests) of(t *Target, known map[string]named, needed needs) looked {
	if t.manifest == "" {
		return looked{manifest: manifest{capability: t.Capability}, ok: true}
	}
	wrong := func(format string, args ...any) looked { return looked{problem: fmt.Sprintf(format, args...)} }
	name, key, _ := strings.Cut(t.manifest, "/")
	maps, listed := known[name]
	if !listed {
		return wrong("kubernetes.watch.manifests does not list the ConfigMap %.64q", name)
	}
	object := maps.byNamespace[t.Namespace]
	if object == nil {
		if maps.pending.covers(t.Namespace) {
			return looked{}
		}
		return wrong("the namespace has no ConfigMap %s", name)
	}
	text := textKey{object.Key(), cmp.Or(key, manifestKey)}
	needed.add(text, object.ResourceVersion)
	is, read, err := m.reader.last(text)
	found := looked{manifest: manifest{t.manifest, t.Capability, is.contents, text}}
	found.ok = read && is.problem == "" && is.capability == t.Capability
	switch {
	case err != nil:
		found.ok = found.ok && is.document != nil
		found.problem, found.failed = fmt.Sprintf("the ConfigMap %s cannot be read: %v", name, err), true
	case !read || found.ok:
	case is.problem != "":
		return wrong("the ConfigMap %s %s", name, is.problem)
	default:
		return wrong("the ConfigMap %s has the manifest of %s, and not of %s", name, is.capability, t.Capability)
	}
	return found
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
