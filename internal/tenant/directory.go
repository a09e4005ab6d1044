package tenant

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// Directory holds the settings of all tenants: those of the configuration, which take precedence, and those of
// the store, if there is one.
type Directory struct {
	file   atomic.Pointer[map[string]*Settings]
	stored *readCache[Settings] // nil: there is no store
}

// NewDirectory returns a Directory without tenants of the configuration. The argument stored has further
// tenants; nil without stored tenants.
func NewDirectory(stored *Stored) *Directory {
	d := &Directory{}
	d.Replace(nil)
	if stored != nil {
		d.stored = &stored.tenants
	}
	return d
}

// Replace replaces the tenants of the configuration.
func (d *Directory) Replace(all map[string]*Settings) { d.file.Store(&all) }

// File returns the tenants of the configuration in the order of their ids.
func (d *Directory) File() []*Settings {
	return slices.SortedFunc(maps.Values(*d.file.Load()), func(a, b *Settings) int {
		return strings.Compare(a.ID, b.ID)
	})
}

// InFile returns the settings of a tenant of the configuration, or nil.
func (d *Directory) InFile(id string) *Settings { return (*d.file.Load())[id] }

// Lookup answers from memory, and does not block. It returns nil if there is no such tenant. If known is false,
// call Settings.
func (d *Directory) Lookup(id string) (s *Settings, known bool) {
	if s := d.InFile(id); s != nil || d.stored == nil {
		return s, true
	}
	return d.stored.lookup(id)
}

// Settings may wait until ctx ends. It returns nil if there is no such tenant, and a refusal if the store does
// not answer.
func (d *Directory) Settings(ctx context.Context, id string) (*Settings, *call.Refusal) {
	if s, known := d.Lookup(id); known {
		return s, nil
	}
	return d.stored.fetch(ctx, id)
}
