package tenant

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
)

// Directory knows the settings of all tenants: those of the configuration, which go first, and
// those of the store, if there is one.
type Directory struct {
	file   atomic.Pointer[map[string]*Settings]
	stored *cache[Settings] // nil: there is no store
}

// NewDirectory makes one without tenants. stored has further ones; nil: nobody has.
func NewDirectory(stored *Stored) *Directory {
	d := &Directory{}
	d.Replace(nil)
	if stored != nil {
		d.stored = &stored.tenants
	}
	return d
}

// Replace puts other tenants of the configuration in force.
func (d *Directory) Replace(all map[string]*Settings) { d.file.Store(&all) }

// File are the tenants of the configuration, by id.
func (d *Directory) File() []*Settings {
	return slices.SortedFunc(maps.Values(*d.file.Load()), func(a, b *Settings) int { return strings.Compare(a.ID, b.ID) })
}

// InFile are the settings of a tenant of the configuration; nil: it is not there.
func (d *Directory) InFile(id string) *Settings { return (*d.file.Load())[id] }

// Lookup answers from memory, and does not block; nil is that there is no such tenant. Where it is not
// known, Settings has to be asked.
func (d *Directory) Lookup(id string) (s *Settings, known bool) {
	if s := d.InFile(id); s != nil || d.stored == nil {
		return s, true
	}
	return d.stored.lookup(id)
}

// Settings may wait, until ctx ends. It answers nil where there is no such tenant, and with a
// refusal where that cannot be found out.
func (d *Directory) Settings(ctx context.Context, id string) (*Settings, *call.Refusal) {
	if s, known := d.Lookup(id); known {
		return s, nil
	}
	return d.stored.fetch(ctx, id)
}
