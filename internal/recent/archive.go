package recent

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/lib/archive"
)

// Bounds of what an Archive keeps.
type Bounds struct {
	// How many calls of each tenant can be searched, in Redis; 0: none but those above. One needs about 600 bytes.
	Calls int `yaml:"past" min:"0" max:"100000" default:"2000"`
	// Days after which such a call is deleted.
	Days int `yaml:"past_days" min:"1" max:"30" default:"7"`
}

// Age returns the age at which a call is deleted.
func (b Bounds) Age() time.Duration { return time.Duration(b.Days) * 24 * time.Hour }

// Archive keeps calls for longer than a Store does. Each tenant displaces only its own. Its errors mean that it does
// not respond.
type Archive interface {
	// Keep adds calls, and removes those beyond the bounds.
	Keep(ctx context.Context, calls []Call, b Bounds) error
	// Page returns calls of a tenant that were added between two times and before a mark, the newest first, and the
	// mark of the next page; "" if there is none.
	Page(ctx context.Context, tenant string, from, to time.Time, before string, most int) ([]Call, string, error)
	// Tenants returns the tenants with calls that were added since a time, up to most. The tenant "" has those of
	// callers that were not authenticated.
	Tenants(ctx context.Context, since time.Time, most int) ([]string, error)
}

// late is the time that calls wait for a store that does not respond; later ones may be missed.
const late = 5 * time.Minute

// Search selects archived calls.
type Search struct {
	Filter
	archive.Range // of the times when they ended
}

// Position returns the sort key of a call, in increasing order of time.
func (c *Call) Position() string { return archive.Position(c.Ended, c.ID) }

// Archived reports whether calls are archived.
func (l *Log) Archived() bool { return l.ring != nil && l.cfg.Archive != nil && l.cfg.Bounds.Calls > 0 }

// Age returns how long archived calls are kept.
func (l *Log) Age() time.Duration { return l.cfg.Bounds.Age() }

// Search returns archived calls, the newest first.
func (l *Log) Search(ctx context.Context, s *Search) (found archive.Found[Call], err error) {
	tenants := s.Tenants
	if tenants == nil {
		if tenants, err = l.cfg.Archive.Tenants(ctx, s.From, archive.MaxOwners+1); err != nil {
			return found, err
		}
	}
	calls := archive.Search[Call]{Range: s.Range, Late: late, Page: l.cfg.Archive.Page, Selects: s.Matches,
		At: func(c *Call) (time.Time, string) { return c.Ended, c.ID }}
	return calls.Among(ctx, tenants)
}
