package stored

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// readInterval is the interval of reads of the store, besides those after notifications.
const readInterval = 5 * time.Second

// Mirror holds the objects of a kind that a replica has, each as a T.
type Mirror[T any] struct {
	kind    Kind
	store   Store
	log     *slog.Logger
	wake    chan struct{}
	parse   func(*Record) (T, error)
	publish func(all []T)
	changed func()

	mu      sync.Mutex
	objects map[id]*object[T]
	at      changefeed.Position
	read    bool // the store has been read
}

// id identifies an object.
type id struct{ tenant, name string }

// object is a parsed object. It is immutable.
type object[T any] struct {
	record *Record
	parsed T
}

// NewMirror returns a Mirror without objects. parse reads a Record. publish receives the objects after the first read
// and after each change, those of tenants first; changed is called after publish if they have changed. Calls of publish
// follow one another.
func NewMirror[T any](kind Kind, store Store, parse func(*Record) (T, error), publish func(all []T), changed func(),
	log *slog.Logger) *Mirror[T] {
	return &Mirror[T]{kind: kind, store: store, log: log, wake: make(chan struct{}, 1), parse: parse,
		publish: publish, changed: changed, objects: map[id]*object[T]{}}
}

// Run follows the store until ctx ends.
func (m *Mirror[T]) Run(ctx context.Context) {
	changefeed.Poll(ctx, m.kind.Names, m.wake, m.store.Watch, func(ctx context.Context) time.Duration {
		m.Read(ctx)
		return readInterval
	})
}

// Read reads what has changed in the store. If it does not respond, the known objects stay.
func (m *Mirror[T]) Read(ctx context.Context) { _ = m.readAll(ctx) }

// readAll reads until this replica knows all that was written before the call.
func (m *Mirror[T]) readAll(ctx context.Context) error {
	for done := false; !done; {
		m.mu.Lock()
		at := m.at
		m.mu.Unlock()
		news, err := m.store.Changed(ctx, at)
		m.mu.Lock()
		if err != nil {
			m.mu.Unlock()
			m.log.Debug(m.kind.Names+" cannot be read; the known ones stay in force", "error", err)
			return err
		}
		done = m.at == at // otherwise, another read has been faster
		did := done && m.apply(&news)
		m.mu.Unlock()
		if did && m.changed != nil {
			m.changed()
		}
	}
	return nil
}

// apply applies changes, and reports whether there are any. The caller holds m.mu.
func (m *Mirror[T]) apply(news *Changes) bool {
	before := m.objects
	if m.objects = maps.Clone(before); news.Everything {
		m.objects = map[id]*object[T]{}
	}
	for _, r := range news.Records {
		of := id{r.Tenant, r.Name}
		switch old := before[of]; {
		case len(r.Text) == 0:
			delete(m.objects, of)
		case old != nil && old.record.Etag == r.Etag:
			m.objects[of] = old
		default:
			parsed, err := m.parse(r)
			if err != nil { // of another version of the gateway
				m.log.Warn("a stored "+m.kind.Name+" cannot be read", m.kind.Name, r.Name, "tenant", r.Tenant,
					"error", err)
				delete(m.objects, of)
				continue
			}
			m.objects[of] = &object[T]{r, parsed}
		}
	}
	m.at = news.Now
	same := maps.Equal(before, m.objects)
	if !same || !m.read {
		m.read = true
		m.publish(m.sorted())
	}
	return !same
}

// sorted returns the objects by tenant, those of all tenants last, and by name.
func (m *Mirror[T]) sorted() (all []T) {
	for _, o := range slices.SortedFunc(maps.Values(m.objects), func(a, b *object[T]) int {
		return cmp.Or(-cmp.Compare(a.record.Tenant, b.record.Tenant), cmp.Compare(a.record.Name, b.record.Name))
	}) {
		all = append(all, o.parsed)
	}
	return all
}

// Write writes an object, which this replica then knows. ErrUnread means that it does not yet.
func (m *Mirror[T]) Write(ctx context.Context, r *Record, etag string) error {
	err := m.store.Write(ctx, r, etag)
	unread := m.readAll(ctx) // also after an error, because the object may have been written
	if err == nil && unread != nil {
		return fmt.Errorf("%w: %w", ErrUnread, unread)
	}
	return err
}
