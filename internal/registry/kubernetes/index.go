package kubernetes

import "github.com/capgate/capgate/internal/lib/kubeapi"

// sliceIndex has the slices by namespace and Service. A target with a service reads only its slices.
type sliceIndex struct {
	byService   map[kubeapi.Key][]*endpointSlice // by namespace and name of the Service
	byNamespace map[string][]*endpointSlice      // those of a Service
}

// indexSlices indexes slices, which keep their order.
func indexSlices(objects []*endpointSlice) sliceIndex {
	x := sliceIndex{map[kubeapi.Key][]*endpointSlice{}, map[string][]*endpointSlice{}}
	for _, s := range objects {
		if service := s.Labels[serviceLabel]; service != "" {
			key := kubeapi.Key{Namespace: s.Namespace, Name: service}
			x.byService[key] = append(x.byService[key], s)
			x.byNamespace[s.Namespace] = append(x.byNamespace[s.Namespace], s)
		}
	}
	return x
}

// of returns the slices of a target.
func (x *sliceIndex) of(t *Target) (found []*endpointSlice) {
	if t.Service != "" {
		return x.byService[kubeapi.Key{Namespace: t.Namespace, Name: t.Service}]
	}
	for _, s := range x.byNamespace[t.Namespace] {
		if t.selector.Matches(s.Labels) {
			found = append(found, s)
		}
	}
	return found
}
