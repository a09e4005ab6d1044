package kubernetes

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/capgate/capgate/internal/lib/kubeapi"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// following has the mirrors of one kind of objects, one for each namespace. Its owner guards it.
type following[T any] struct {
	open     func(namespace, selector string) *kubeapi.Mirror[T]
	meta     func(*T) *kubeapi.Meta
	selector Selector // of the wanted mirrors
	mirrors  map[kubeapi.Resource]*followed[T]
}

// followed is a mirror, and the end of its goroutine.
type followed[T any] struct {
	*kubeapi.Mirror[T]
	wanted bool               // by the settings in force; others are former ones
	stop   context.CancelFunc // nil if it has not been started
}

// newFollowing returns mirrors of a kind.
func newFollowing[T any](c *kubeapi.Client, kind kubeapi.Resource, meta func(*T) *kubeapi.Meta,
	o kubeapi.Options) following[T] {
	return following[T]{mirrors: map[kubeapi.Resource]*followed[T]{}, meta: meta,
		open: func(namespace, selector string) *kubeapi.Mirror[T] {
			kind.Namespace, kind.Selector = namespace, selector
			return kubeapi.NewMirror(c, kind, meta, o)
		}}
}

// allNamespaces is the namespace of a mirror of all of them.
const allNamespaces = ""

// want opens one mirror for each namespace, or only one if all namespaces are wanted. Former mirrors go on until prune.
func (f *following[T]) want(namespaces map[string]bool, selector string) {
	if namespaces[allNamespaces] {
		namespaces = map[string]bool{allNamespaces: true}
	}
	f.selector, _ = ParseSelector(selector) // the configuration was checked
	missing := maps.Clone(namespaces)
	for r, m := range f.mirrors {
		if m.wanted = namespaces[r.Namespace] && r.Selector == selector; m.wanted {
			delete(missing, r.Namespace)
		}
	}
	for namespace := range missing {
		m := f.open(namespace, selector)
		f.mirrors[m.Resource()] = &followed[T]{Mirror: m, wanted: true}
	}
}

// pending are the namespaces whose wanted mirror has not listed its objects yet.
type pending map[string]bool

// pending returns the namespaces without objects.
func (f *following[T]) pending() pending {
	p := pending{}
	for r, m := range f.mirrors {
		if m.wanted && !m.State().Synced {
			p[r.Namespace] = true
		}
	}
	return p
}

// covers reports whether objects of a namespace, or any objects if it is allNamespaces, are pending.
func (p pending) covers(namespace string) bool {
	return p[allNamespaces] || p[namespace] || namespace == allNamespaces && len(p) > 0
}

// prune ends the former mirrors, except for those with objects that are pending in the wanted ones.
func (f *following[T]) prune() {
	p := f.pending()
	maps.DeleteFunc(f.mirrors, func(r kubeapi.Resource, m *followed[T]) bool {
		keep := m.wanted || m.State().Synced && p.covers(r.Namespace)
		if !keep && m.stop != nil {
			m.stop()
		}
		return !keep
	})
}

// start starts the mirrors that have not been started. They end with ctx.
func (f *following[T]) start(ctx context.Context, all *sync.WaitGroup) {
	for _, m := range f.mirrors {
		if m.stop == nil {
			mirroring, stop := context.WithCancel(ctx)
			m.stop = stop
			all.Go(recovery.Loop(mirroring, "kubernetes", func() { m.Run(mirroring) }))
		}
	}
}

// all returns the wanted mirrors in a fixed order.
func (f *following[T]) all() []mirror {
	var wanted []mirror
	for _, m := range f.mirrors {
		if m.wanted {
			wanted = append(wanted, m.Mirror)
		}
	}
	slices.SortFunc(wanted, func(a, b mirror) int {
		return strings.Compare(a.Resource().Namespace, b.Resource().Namespace)
	})
	return wanted
}

// objects returns the objects in force, sorted by namespace and name. Former mirrors have those that are pending, if
// the selector chooses them.
func (f *following[T]) objects() (objects []*T) {
	p := f.pending()
	known := map[kubeapi.Key]bool{}
	for r, m := range f.mirrors {
		if m.wanted && p[r.Namespace] || !m.wanted && len(p) == 0 {
			continue
		}
		all := m.Objects()
		for i := range all {
			meta := f.meta(&all[i])
			if m.wanted || p.covers(meta.Namespace) && !known[meta.Key()] && f.selector.Matches(meta.Labels) {
				objects = append(objects, &all[i])
			}
			if !m.wanted {
				known[meta.Key()] = true
			}
		}
	}
	slices.SortFunc(objects, func(a, b *T) int {
		x, y := f.meta(a), f.meta(b)
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	return objects
}

// mirror is a kubeapi.Mirror of any kind.
type mirror interface {
	Resource() kubeapi.Resource
	Listed() <-chan struct{}
	State() kubeapi.State
}
