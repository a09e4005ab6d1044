package kubernetes

import (
	"fmt"
	"strings"

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

// manifests has the manifests in force. Its owner guards it.
type manifests struct {
	read     func(text string) (capability string, refusal *call.Refusal)
	good     map[kubeapi.Key]manifest // by Service, the last valid one
	sums     map[textVersion]registry.Sum
	readings map[registry.Sum]reading
}

// manifest is a valid manifest of a Service.
type manifest struct {
	named, capability string // the annotations
	registry.Manifest
}

// textVersion is a version of the text under a key of a ConfigMap.
type textVersion struct {
	version
	key string
}

// reading is the result of parsing a text, valid or not. Each text is parsed once.
type reading struct {
	capability string
	problem    string // "": it is valid
}

// ofNamespace is a manifest in a namespace, whose share it takes.
type ofNamespace struct {
	namespace string
	sum       registry.Sum
}

// assign sets the manifests of targets with the annotation, and leaves out those without a valid one. A Service keeps
// its last valid manifest, as a fleet does when its file becomes invalid. Namespaces share registry.MaxManifests.
func (m *manifests) assign(targets []Target, known map[string]named) (assigned []Target, problems []string) {
	all := manifests{m.read, map[kubeapi.Key]manifest{}, map[textVersion]registry.Sum{}, map[registry.Sum]reading{}}
	problem := func(t *Target, text string) {
		problems = append(problems, fmt.Sprintf("service %s/%s: %s: %s", t.Namespace, t.Service, manifestAnnotation,
			text))
	}
	for i := range targets {
		t := &targets[i]
		if t.manifest == "" {
			continue
		}
		next, wrong := all.of(t, known, m)
		before := m.good[t.key()]
		if next.Sum == (registry.Sum{}) && before.named == t.manifest && before.capability == t.Capability {
			next = before
			if wrong != "" {
				wrong += "; the last valid manifest stays in force"
			}
		}
		if next.Sum != (registry.Sum{}) {
			all.good[t.key()] = next
		}
		if wrong != "" {
			problem(t, wrong)
		}
	}
	fitting := share(all.claims(targets), registry.MaxManifests)
	for i := range targets {
		t := targets[i]
		if t.manifest == "" {
			assigned = append(assigned, t)
			continue
		}
		one, ok := all.good[t.key()]
		switch {
		case !ok:
		case fitting[ofNamespace{t.Namespace, one.Sum}]:
			t.sum = one.Sum
			assigned = append(assigned, t)
		default:
			delete(all.good, t.key())
			problem(&t, fmt.Sprintf("the manifests of the namespace exceed its share of the %d bytes for all",
				registry.MaxManifests))
		}
	}
	*m = all
	return assigned, problems
}

// claims returns what the manifests of targets claim of registry.MaxManifests. Services of a namespace with the same
// text claim it once.
func (m *manifests) claims(targets []Target) (claims []claim[ofNamespace]) {
	at := map[ofNamespace]int{}
	for i := range targets {
		t := &targets[i]
		one, ok := m.good[t.key()]
		if !ok {
			continue
		}
		key := ofNamespace{t.Namespace, one.Sum}
		c := claim[ofNamespace]{key: key, namespace: t.Namespace, name: t.Service, created: t.created,
			size: len(one.Text)}
		if n, has := at[key]; !has {
			at[key] = len(claims)
			claims = append(claims, c)
		} else if older(c, claims[n]) < 0 {
			claims[n] = c
		}
	}
	return claims
}

// of returns the manifest of a target, or a problem. There is neither before its ConfigMap has been read.
func (m *manifests) of(t *Target, known map[string]named, former *manifests) (next manifest, problem string) {
	name, key, _ := strings.Cut(t.manifest, "/")
	if key == "" {
		key = manifestKey
	}
	maps, listed := known[name]
	if !listed {
		return next, fmt.Sprintf("kubernetes.watch.manifests does not list the ConfigMap %.64q", name)
	}
	object := maps.byNamespace[t.Namespace]
	if object == nil {
		if maps.pending.covers(t.Namespace) {
			return next, ""
		}
		return next, fmt.Sprintf("the namespace has no ConfigMap %s", name)
	}
	text := object.Data[key]
	if text == "" {
		return next, fmt.Sprintf("the ConfigMap %s has no key %.64q", name, key)
	}
	sum := m.sum(textVersion{version{object.Key(), object.ResourceVersion}, key}, text, former)
	switch is := m.reading(sum, text, former); {
	case is.problem != "":
		return next, fmt.Sprintf("the ConfigMap %s has no valid manifest: %s", name, is.problem)
	case is.capability != t.Capability:
		return next, fmt.Sprintf("the ConfigMap %s has the manifest of %s, and not of %s", name, is.capability,
			t.Capability)
	}
	return manifest{t.manifest, t.Capability, registry.Manifest{Sum: sum, Text: text}}, ""
}

// sum returns the sum of a text, which is computed once.
func (m *manifests) sum(at textVersion, text string, former *manifests) registry.Sum {
	sum, known := m.sums[at]
	if !known {
		if sum, known = former.sums[at]; !known {
			sum = registry.NewManifest(text).Sum
		}
		m.sums[at] = sum
	}
	return sum
}

// reading returns what a text says.
func (m *manifests) reading(sum registry.Sum, text string, former *manifests) reading {
	is, known := m.readings[sum]
	if !known {
		if is, known = former.readings[sum]; !known {
			capability, refusal := m.read(text)
			if is.capability = capability; refusal != nil {
				is.problem = untrusted.Beginning(refusal.Message, problemLength)
			}
		}
		m.readings[sum] = is
	}
	return is
}

// texts returns the texts in force.
func (m *manifests) texts() map[registry.Sum]string {
	all := make(map[registry.Sum]string, len(m.good))
	for _, one := range m.good {
		all[one.Sum] = one.Text
	}
	return all
}

// Manifest returns the text of a manifest that members have, or "".
func (d *Discovery) Manifest(sum registry.Sum) string { return d.shown.Load().manifests[sum] }
