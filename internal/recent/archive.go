package recent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// mark of the next page; "": there is none.
	Page(ctx context.Context, tenant string, from, to time.Time, before string, most int) ([]Call, string, error)
	// Tenants returns the tenants with calls that were added since a time, up to most. The tenant "" has those of
	// callers that were not authenticated.
	Tenants(ctx context.Context, since time.Time, most int) ([]string, error)
}

const (
	// maxScan bounds the calls that a search reads, which its tenants share.
	maxScan  = 20_000
	scanPage = 500
	// maxTenants bounds the tenants of a search.
	maxTenants = 40
	// late is the time that calls wait for a store that does not respond; later ones may be missed.
	late = 5 * time.Minute
)

// Search selects archived calls.
type Search struct {
	Filter
	From, To time.Time // when they ended
	Before   string    // Position of the call before the first one; "": from the newest on
	Most     int
}

// Found are archived calls.
type Found struct {
	Calls []Call // the newest first
	Next  string // Before of the next page; "": there is none
	// Incomplete: some tenants, or some older calls, were not searched.
	Incomplete bool
}

// Position returns the sort key of a call, in increasing order of time.
func (c *Call) Position() string { return fmt.Sprintf("%020d %s", c.Ended.UnixNano(), c.ID) }

// Archived reports whether calls are archived.
func (l *Log) Archived() bool { return l.ring != nil && l.cfg.Archive != nil && l.cfg.Bounds.Calls > 0 }

// Age returns how long archived calls are kept.
func (l *Log) Age() time.Duration { return l.cfg.Bounds.Age() }

// Search returns archived calls. It reads at most maxScan.
func (l *Log) Search(ctx context.Context, s *Search) (found Found, err error) {
	tenants := s.Tenants
	if tenants == nil {
		if tenants, err = l.cfg.Archive.Tenants(ctx, s.From, maxTenants+1); err != nil {
			return found, err
		}
	}
	if len(tenants) > maxTenants {
		tenants, found.Incomplete = tenants[:maxTenants], true
	}
	for _, tenant := range tenants {
		calls, all, err := l.scan(ctx, s, tenant, max(scanPage, maxScan/len(tenants)))
		if err != nil {
			return found, err
		}
		found.Calls, found.Incomplete = append(found.Calls, calls...), found.Incomplete || !all
	}
	sortCalls(found.Calls)
	found.Calls = slices.CompactFunc(found.Calls, func(a, b Call) bool { return a.ID == b.ID })
	if len(found.Calls) > s.Most {
		found.Calls = found.Calls[:s.Most]
		found.Next = found.Calls[s.Most-1].Position()
	}
	return found, nil
}

// scan returns at least the newest Most+1 calls of a tenant that a search selects, as far as it reads. all is false if
// it stopped after most calls.
func (l *Log) scan(ctx context.Context, s *Search, tenant string, most int) (calls []Call, all bool, err error) {
	to := s.end().Add(late)
	for mark, read := "", 0; ; {
		page, next, err := l.cfg.Archive.Page(ctx, tenant, s.From, to, mark, scanPage)
		if err != nil {
			return nil, false, err
		}
		for i := range page {
			if c := &page[i]; s.selects(c) {
				calls = append(calls, *c)
			}
		}
		read, mark = read+len(page), next
		switch {
		case mark == "", len(calls) > s.Most:
			return calls, true, nil
		case read >= most:
			return calls, false, nil
		}
	}
}

// end returns the time of the newest calls that the search may select.
func (s *Search) end() time.Time {
	text, _, _ := strings.Cut(s.Before, " ")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && time.Unix(0, n).Before(s.To) {
		return time.Unix(0, n)
	}
	return s.To
}

// selects reports whether a call is one of the search.
func (s *Search) selects(c *Call) bool {
	return !c.Ended.Before(s.From) && !c.Ended.After(s.To) &&
		(s.Before == "" || cmp.Less(c.Position(), s.Before)) && s.Matches(c)
}
