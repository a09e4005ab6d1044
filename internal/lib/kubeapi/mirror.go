package kubeapi

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// Options configure a Mirror. The zero value works.
type Options struct {
	Changed func()       // called after each change of the objects, and must not block; optional
	Log     *slog.Logger // nil: discarded
	// Annotations is the prefix of the annotations that are kept in Meta. "": none are.
	Annotations string
	Labels      bool          // keeps the labels in Meta
	Metadata    bool          // requests only the metadata of objects
	PageSize    int           // objects in a page; default 100
	MaxObjects  int           // more are an error; default 100,000
	Watch       time.Duration // duration of a watch, plus or minus 30 %; default 7 min
	Resync      time.Duration // longest time between two lists, about; default 1 h
	First, Max  time.Duration // backoff after failures, plus or minus 20 %; default 200 ms and 30 s
}

func (o *Options) fill() {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.PageSize, o.MaxObjects = cmp.Or(o.PageSize, 100), cmp.Or(o.MaxObjects, 100_000)
	o.Watch, o.Resync = cmp.Or(o.Watch, 7*time.Minute), cmp.Or(o.Resync, time.Hour)
	o.First, o.Max = cmp.Or(o.First, 200*time.Millisecond), cmp.Or(o.Max, 30*time.Second)
}

// Mirror is a copy of the objects of a resource. T has the fields that are used of an object. Its methods are safe for
// concurrent use.
type Mirror[T any] struct {
	client   *Client
	resource Resource
	meta     func(*T) *Meta
	o        Options
	listed   chan struct{} // closed after the first list, successful or not
	first    sync.Once

	mu      sync.Mutex
	objects map[Key]T
	state   State
}

// State is the condition of a Mirror.
type State struct {
	Objects  int
	Synced   bool      // the objects were listed once
	Since    time.Time // beginning of the failures; zero: the watch is established
	Err      error     // the last failure; nil if Since is zero
	Lists    int64     // complete lists so far
	Failures int64     // failed lists and watches so far
}

// NewMirror returns a Mirror without objects. The function meta returns the metadata of an object.
func NewMirror[T any](c *Client, r Resource, meta func(*T) *Meta, o Options) *Mirror[T] {
	o.fill()
	return &Mirror[T]{client: c, resource: r, meta: meta, o: o, listed: make(chan struct{}), objects: map[Key]T{},
		state: State{Since: time.Now()}}
}

// Resource returns the mirrored resource.
func (m *Mirror[T]) Resource() Resource { return m.resource }

// Listed is closed after the first attempt to list the objects.
func (m *Mirror[T]) Listed() <-chan struct{} { return m.listed }

// Objects returns all objects in no order. They must not be changed.
func (m *Mirror[T]) Objects() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]T, 0, len(m.objects))
	for _, object := range m.objects {
		all = append(all, object)
	}
	return all
}

// State returns the condition of now.
func (m *Mirror[T]) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	s.Objects = len(m.objects)
	return s
}

// maxWatchFailures is the number of watches that may fail in a row before the objects are listed again: the version
// may be one that the server does not have, as after the restore of a backup.
const maxWatchFailures = 4

// Run follows the server until ctx ends.
func (m *Mirror[T]) Run(ctx context.Context) {
	wait := backoff.Backoff{First: m.o.First, Max: m.o.Max}
	pause := func(least time.Duration) { backoff.Sleep(ctx, max(backoff.Jitter(wait.Next(), 0.2), least)) }
	for ctx.Err() == nil {
		version, err := m.list(ctx)
		if ctx.Err() != nil {
			return
		}
		m.first.Do(func() { close(m.listed) })
		if err != nil {
			m.failed(err)
			pause(retryAfter(err))
			continue
		}
		m.follow(ctx, version, &wait, pause)
	}
}

// follow watches from a version until the objects must be listed again.
func (m *Mirror[T]) follow(ctx context.Context, version string, wait *backoff.Backoff, pause func(time.Duration)) {
	resync := time.Now().Add(backoff.Jitter(m.o.Resync, 0.1))
	w := watching{version: version}
	for failures := 0; failures < maxWatchFailures && time.Now().Before(resync); {
		w.alive = false
		err := m.watch(ctx, &w)
		if ctx.Err() != nil {
			return
		}
		if w.alive {
			wait.Reset()
			failures = 0
		}
		switch {
		case expired(err):
			m.o.Log.Debug("kubernetes: the version has expired; listing again", "resource", m.resource.String())
			pause(0)
			return
		case err != nil:
			m.failed(err)
			failures++
			pause(retryAfter(err))
		case !w.alive:
			pause(0)
		}
	}
}

// failed records a failure. It logs the first one of several.
func (m *Mirror[T]) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Failures++
	if m.state.Err == nil {
		text := "kubernetes: the last known objects stay in force"
		if !m.state.Synced {
			text = "kubernetes: objects cannot be listed; trying again"
		}
		m.o.Log.Warn(text, "resource", m.resource.String(), "objects", len(m.objects), "error", err)
	}
	if m.state.Since.IsZero() {
		m.state.Since = time.Now()
	}
	m.state.Err = err
}

// works records that the watch is established.
func (m *Mirror[T]) works() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Err != nil {
		m.o.Log.Info("kubernetes: objects are followed again", "resource", m.resource.String(), "objects",
			len(m.objects), "after", time.Since(m.state.Since).Round(time.Millisecond).String())
	}
	m.state.Since, m.state.Err = time.Time{}, nil
}

// replace puts a complete list in force.
func (m *Mirror[T]) replace(next map[Key]T) {
	m.mu.Lock()
	m.objects = next
	m.state.Synced = true
	m.state.Lists++
	m.mu.Unlock()
	m.o.Changed()
}

// put adds or replaces an object, and reports false if there are too many.
func (m *Mirror[T]) put(key Key, object T) bool {
	m.mu.Lock()
	if _, known := m.objects[key]; !known && len(m.objects) >= m.o.MaxObjects {
		m.mu.Unlock()
		return false
	}
	m.objects[key] = object
	m.mu.Unlock()
	m.o.Changed()
	return true
}

// remove removes an object.
func (m *Mirror[T]) remove(key Key) {
	m.mu.Lock()
	delete(m.objects, key)
	m.mu.Unlock()
	m.o.Changed()
}
