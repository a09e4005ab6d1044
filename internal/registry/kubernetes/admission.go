package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/kubeapi"
)

// Bounds of the Services that announce capabilities.
const (
	maxAnnounced   = 1250 // in all namespaces
	freeShare      = 4    // a namespace has at most this many times the free places
	maxRefusedName = 3    // names of Services that a problem lists
)

// admission has the Services that have a place. A Service keeps its place as long as it announces a capability. A
// namespace gets places in turn with others, and only while it has fewer than freeShare times the free ones. So one
// namespace has at most 1,000, and there are places for the next one.
type admission struct {
	places  map[kubeapi.Key]bool
	refused int
}

// admit returns the targets with a place, and a problem for each namespace with others.
func (a *admission) admit(targets []Target) (admitted []Target, problems []string) {
	places, has, waiting := map[kubeapi.Key]bool{}, map[string]int{}, map[string][]kubeapi.Key{}
	for i := range targets {
		if key := targets[i].key(); a.places[key] {
			places[key] = true
			has[key.Namespace]++
		} else {
			waiting[key.Namespace] = append(waiting[key.Namespace], key)
		}
	}
	namespaces := slices.Sorted(maps.Keys(waiting))
	for admitting := true; admitting; {
		admitting = false
		for _, namespace := range namespaces {
			next := waiting[namespace]
			if len(next) > 0 && has[namespace] < freeShare*(maxAnnounced-len(places)) {
				places[next[0]], waiting[namespace], admitting = true, next[1:], true
				has[namespace]++
			}
		}
	}
	a.places, a.refused = places, len(targets)-len(places)
	for _, namespace := range namespaces {
		if left := waiting[namespace]; len(left) > 0 {
			problems = append(problems, refusedProblem(namespace, has[namespace], left))
		}
	}
	return slices.DeleteFunc(targets, func(t Target) bool { return !places[t.key()] }), problems
}

// key returns the key of a target's Service.
func (t *Target) key() kubeapi.Key { return kubeapi.Key{Namespace: t.Namespace, Name: t.Service} }

func refusedProblem(namespace string, has int, left []kubeapi.Key) string {
	var names []string
	for _, key := range left[:min(len(left), maxRefusedName)] {
		names = append(names, key.Name)
	}
	list := strings.Join(names, ", ")
	if len(left) > maxRefusedName {
		list += ", …"
	}
	return fmt.Sprintf("namespace %s: %d Services announce capabilities beyond its share of %d, and are left out: %s; "+
		"narrow kubernetes.watch", namespace, len(left), has, list)
}
