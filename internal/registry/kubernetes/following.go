package kubernetes

import (
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
	open    func(namespace, selector string) *kubeapi.Mirror[T]
	mirrors map[kubeapi.Resource]*followed[T]
}

// followed is a mirror, and the end of its goroutine.
type followed[T any] struct {
	*kubeapi.Mirror[T]
	stop context.CancelFunc // nil: it has not begun
}

// newFollowing returns mirrors of a kind.
func newFollowing[T any](c *kubeapi.Client, kind kubeapi.Resource, meta func(*T) *kubeapi.Meta,
	o kubeapi.Options) following[T] {
	return following[T]{mirrors: map[kubeapi.Resource]*followed[T]{},
		open: func(namespace, selector string) *kubeapi.Mirror[T] {
			kind.Namespace, kind.Selector = namespace, selector
			return kubeapi.NewMirror(c, kind, meta, o)
		}}
}

// allNamespaces is the namespace of a mirror of all of them.
const allNamespaces = ""

// want keeps one mirror for each namespace, or only one if all namespaces are wanted.
func (f *following[T]) want(namespaces map[string]bool, selector string) {
	if namespaces[allNamespaces] {
		namespaces = map[string]bool{allNamespaces: true}
	}
	maps.DeleteFunc(f.mirrors, func(r kubeapi.Resource, m *followed[T]) bool {
		keep := namespaces[r.Namespace] && r.Selector == selector
		if !keep && m.stop != nil {
			m.stop()
		}
		return !keep
	})
	for namespace := range namespaces {
		if f.in(namespace) == nil {
			m := f.open(namespace, selector)
			f.mirrors[m.Resource()] = &followed[T]{Mirror: m}
		}
	}
}

// in returns the mirror with the objects of a namespace; nil: there is none.
func (f *following[T]) in(namespace string) *kubeapi.Mirror[T] {
	for r, m := range f.mirrors {
		if r.Namespace == namespace || r.Namespace == allNamespaces {
			return m.Mirror
		}
	}
	return nil
}

// start starts the mirrors that have not begun. They end with ctx.
func (f *following[T]) start(ctx context.Context, all *sync.WaitGroup) {
	for _, m := range f.mirrors {
		if m.stop == nil {
			mirroring, stop := context.WithCancel(ctx)
			m.stop = stop
			all.Go(recovery.Loop(mirroring, "kubernetes", func() { m.Run(mirroring) }))
		}
	}
}

// all returns the mirrors in a fixed order.
func (f *following[T]) all() []mirror {
	var all []mirror
	for _, m := range f.mirrors {
		all = append(all, m.Mirror)
	}
	slices.SortFunc(all, func(a, b mirror) int {
		return strings.Compare(a.Resource().Namespace, b.Resource().Namespace)
	})
	return all
}

// objects returns the objects of all mirrors.
func (f *following[T]) objects() (all []T) {
	for _, m := range f.mirrors {
		all = append(all, m.Objects()...)
	}
	return all
}

// mirror is a kubeapi.Mirror of any kind.
type mirror interface {
	Resource() kubeapi.Resource
	Listed() <-chan struct{}
	State() kubeapi.State
}
