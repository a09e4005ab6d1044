package kubernetes

import (
	"slices"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/registry"
)

// foundKey has what the backends of a target depend on, besides slices.
type foundKey struct {
	capability string
	Source
	Protocol
	weight  int
	dialect call.Dialect
	sum     registry.Sum
}

// foundKey returns the key of a target's backends.
func (t *Target) foundKey() foundKey {
	return foundKey{t.Capability, t.Source, t.Protocol, t.Weight, t.Dialect, t.sum}
}

// version is a version of a slice.
type version struct {
	kubeapi.Key
	resourceVersion string
}

// versionOf returns the version of a slice.
func versionOf(s *endpointSlice) version { return version{s.Key(), s.ResourceVersion} }

// kept are the backends of a target, sorted, and the slices that they are from.
type kept struct {
	from     []version
	members  []registry.Member
	problems []string
}

// find returns the backends of a target. Those of unchanged slices are the former ones, and next keeps all. The caller
// holds d.publishing.
func (d *Discovery) find(t *Target, slicesOf []*endpointSlice, next map[foundKey]kept) kept {
	key := t.foundKey()
	one, known := d.found[key]
	same := func(v version, s *endpointSlice) bool { return v == versionOf(s) }
	if !known || !slices.EqualFunc(one.from, slicesOf, same) {
		of := endpointsOf(slicesOf, t, d.foundWith.Rules.CheckAddr)
		if t.Namespace == "" {
			of.problem("kubernetes.namespace is required outside of a cluster")
		}
		one = kept{members: registry.Merge(t.members(nil, of.endpoints)), problems: of.problems}
		for _, s := range slicesOf {
			one.from = append(one.from, versionOf(s))
		}
	}
	next[key] = one
	return one
}
