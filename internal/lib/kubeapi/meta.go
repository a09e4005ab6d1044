package kubeapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of the metadata that a Mirror keeps. Those of names and labels are the API server's own.
const (
	maxName  = 253 // bytes, of an object or a namespace
	maxKey   = 317 // bytes, of a label or an annotation
	maxValue = 253 // bytes; longer ones are truncated, and fit no label
	maxPairs = 64  // labels and annotations of an object, the first by name
)

// Meta is the part of an object's metadata that is used.
type Meta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	ResourceVersion string            `json:"resourceVersion"`
	Created         time.Time         `json:"creationTimestamp"`
	Labels          map[string]string `json:"labels"`      // without Options.Labels none
	Annotations     map[string]string `json:"annotations"` // those of Options.Annotations
}

// Key identifies an object of a resource.
type Key struct{ Namespace, Name string }

// Key returns the object's key.
func (m *Meta) Key() Key { return Key{m.Namespace, m.Name} }

// trim removes the metadata that is not used, which others may write at any length.
func (m *Meta) trim(o *Options) error {
	if len(m.Name) > maxName || len(m.Namespace) > maxName {
		return fmt.Errorf("the name of an object is longer than %d bytes", maxName)
	}
	m.Labels = trimPairs(m.Labels, func(string) bool { return o.Labels })
	m.Annotations = trimPairs(m.Annotations, func(name string) bool {
		return o.Annotations != "" && strings.HasPrefix(name, o.Annotations)
	})
	return nil
}

// trimPairs returns the pairs that are kept, in a map of their own.
func trimPairs(pairs map[string]string, keep func(name string) bool) map[string]string {
	maps.DeleteFunc(pairs, func(name, _ string) bool { return len(name) > maxKey || !keep(name) })
	if len(pairs) == 0 {
		return nil
	}
	kept := make(map[string]string, min(len(pairs), maxPairs))
	for _, name := range slices.Sorted(maps.Keys(pairs))[:min(len(pairs), maxPairs)] {
		value := pairs[name]
		if len(value) > maxValue {
			value = strings.Clone(value[:maxValue]) // the rest is not kept
		}
		kept[name] = value
	}
	return kept
}
