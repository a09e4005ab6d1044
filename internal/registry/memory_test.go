package registry_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/registry/storetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() registry.Leases { return newMemory() })
}

// memory is a store of leases in this process. It can be silent, and lose everything.
type memory struct {
	mu       sync.Mutex
	version  int
	silent   bool
	leases   map[registry.Key]leased
	ended    map[registry.Key]time.Time
	texts    map[registry.Sum]string
	followed map[chan struct{}]bool
}

type leased struct {
	registry.Registration
	until time.Time
}

var errSilent = errors.New("silence")

func newMemory() *memory {
	return &memory{
		leases: map[registry.Key]leased{}, ended: map[registry.Key]time.Time{}, texts: map[registry.Sum]string{},
		followed: map[chan struct{}]bool{},
	}
}

func (m *memory) Register(_ context.Context, g *registry.Registration, renew bool, most int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, exists := m.leases[g.Key()]
	switch {
	case m.silent:
		return errSilent
	case exists && renew && old.Lease != g.Lease:
		return registry.ErrSuperseded
	case !exists && len(m.leases) >= most:
		return registry.ErrFull
	}
	if err := m.store(g.Manifest); err != nil {
		return err
	}
	kept := *g
	kept.Manifest.Text = ""
	m.leases[g.Key()] = leased{kept, time.Now().Add(g.TTL)}
	delete(m.ended, g.Key())
	if !exists || !reflect.DeepEqual(old.Registration, kept) {
		m.changed()
	}
	return nil
}

// store stores the text of a manifest, and deletes unused ones if there are too many.
func (m *memory) store(manifest registry.Manifest) error {
	size, named := len(manifest.Text), map[registry.Sum]bool{manifest.Sum: true}
	for _, l := range m.leases {
		named[l.Manifest.Sum] = true
	}
	for sum, text := range m.texts {
		if sum != manifest.Sum && named[sum] {
			size += len(text)
		}
	}
	stored := m.texts[manifest.Sum] != ""
	switch {
	case manifest.Text == "" && manifest.Sum != registry.Sum{} && !stored:
		return errSilent
	case !stored && size > registry.MaxManifests:
		return registry.ErrManifests
	case manifest.Text != "":
		maps.DeleteFunc(m.texts, func(sum registry.Sum, _ string) bool { return !named[sum] })
		m.texts[manifest.Sum] = manifest.Text
	}
	return nil
}

func (m *memory) Withdraw(_ context.Context, key registry.Key, lease string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, exists := m.leases[key]
	switch {
	case m.silent:
		return false, errSilent
	case exists && lease != "" && old.Lease != lease:
		return false, registry.ErrSuperseded
	case exists:
		delete(m.leases, key)
		m.ended[key] = time.Now()
		m.changed()
	}
	return exists, nil
}

func (m *memory) Read(_ context.Context, since string) (registry.Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent {
		return registry.Reading{}, errSilent
	}
	for key, l := range m.leases {
		if !time.Now().Before(l.until) {
			delete(m.leases, key)
			m.ended[key] = time.Now()
			m.changed()
		}
	}
	got := registry.Reading{Version: strconv.Itoa(m.version)}
	if got.Version == since {
		got.Unchanged = true
		return got, nil
	}
	for _, l := range m.leases {
		got.Live = append(got.Live, l.Registration)
	}
	for key := range m.ended {
		got.Ended = append(got.Ended, key)
	}
	return got, nil
}

func (m *memory) Manifest(_ context.Context, sum registry.Sum) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent {
		return "", errSilent
	}
	return m.texts[sum], nil
}

func (m *memory) Watch(ctx context.Context, changed func()) {
	notice := make(chan struct{}, 1)
	notice <- struct{}{} // for changes before the watch
	m.mu.Lock()
	m.followed[notice] = true
	m.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-notice:
			changed()
		}
	}
}

// changed notifies the watchers. The caller holds m.mu.
func (m *memory) changed() {
	m.version++
	for notice := range m.followed {
		select {
		case notice <- struct{}{}:
		default:
		}
	}
}

// hush makes the store silent, or ends that.
func (m *memory) hush(silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = silent
}

// lose empties the store without a notification.
func (m *memory) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.leases)
	clear(m.ended)
	clear(m.texts)
	m.version += 1000
}

// keep stores the text of a manifest under any sum.
func (m *memory) keep(sum registry.Sum, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts[sum] = text
}

// put stores a value that no replica would store.
func (m *memory) put(g registry.Registration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[g.Key()] = leased{g, time.Now().Add(time.Hour)}
	m.changed()
}
