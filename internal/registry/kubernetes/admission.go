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
	maxRefusedName = 3    // names of Services that a problem lists
)

// admit returns the targets with a place, and a problem for each namespace with others. Namespaces share the places,
// and the oldest Services of each get them.
func admit(targets []Target) (admitted []Target, problems []string) {
	claims := make([]claim[kubeapi.Key], len(targets))
	for i := range targets {
		t := &targets[i]
		claims[i] = claim[kubeapi.Key]{key: t.key(), namespace: t.Namespace, name: t.Service, created: t.created,
			size: 1}
	}
	places, has, left := share(claims, maxAnnounced), map[string]int{}, map[string][]string{}
	for i := range claims { // the oldest first
		if c := &claims[i]; places[c.key] {
			has[c.namespace]++
		} else {
			left[c.namespace] = append(left[c.namespace], c.name)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(left)) {
		problems = append(problems, refusedProblem(namespace, has[namespace], left[namespace]))
	}
	return slices.DeleteFunc(targets, func(t Target) bool { return !places[t.key()] }), problems
}

// key returns the key of a target's Service.
func (t *Target) key() kubeapi.Key { return kubeapi.Key{Namespace: t.Namespace, Name: t.Service} }

func refusedProblem(namespace string, has int, left []string) string {
	list := strings.Join(left[:min(len(left), maxRefusedName)], ", ")
	if len(left) > maxRefusedName {
		list += ", …"
	}
	return fmt.Sprintf("namespace %s: %d Services announce capabilities beyond its share of %d, and are left out: %s; "+
		"narrow kubernetes.watch", namespace, len(left), has, list)
}
