// Package archive searches entries of several owners by time, the newest first. Each owner's entries are read page by
// page, up to a bound that the owners share.
package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// maxScan bounds the entries that a search reads.
	maxScan  = 20_000
	scanPage = 500
	// MaxOwners bounds the owners of a search.
	MaxOwners = 40
)

// Range is a range of time and a page of it.
type Range struct {
	From, To time.Time
	Before   string // Position of the entry before the first one; "": from the newest on
	Most     int
}

// Between returns the range between two times of a request. Unset, the end is now, and the start is as long before the
// end as entries are kept. ok is false if the end is before the start.
func Between(start, end *timestamppb.Timestamp, age time.Duration) (r Range, ok bool) {
	if r.To = time.Now(); end != nil {
		r.To = end.AsTime()
	}
	if r.From = r.To.Add(-age); start != nil {
		r.From = start.AsTime()
	}
	if first := time.Unix(0, 0); r.From.Before(first) {
		r.From = first
	}
	return r, !r.To.Before(r.From)
}

// Search selects entries. All fields are required.
type Search[T any] struct {
	Range
	// Late is the longest time between the time of an entry and its addition to the archive; later ones may be missed.
	Late time.Duration
	// Page returns entries of an owner that were added between two times and before a mark, the newest first, and the
	// mark of the next page; "": there is none.
	Page func(ctx context.Context, owner string, from, to time.Time, before string, most int) ([]T, string, error)
	// At returns the time and the id of an entry.
	At      func(*T) (time.Time, string)
	Selects func(*T) bool
}

// Found are entries.
type Found[T any] struct {
	Entries []T    // the newest first
	Next    string // Before of the next page; "": there is none
	// Incomplete: some owners, or some older entries, were not searched.
	Incomplete bool
}

// Among returns a page of the entries of some owners.
func (s *Search[T]) Among(ctx context.Context, owners []string) (found Found[T], err error) {
	if len(owners) > MaxOwners {
		owners, found.Incomplete = owners[:MaxOwners], true
	}
	for _, owner := range owners {
		entries, all, err := s.scan(ctx, owner, max(scanPage, maxScan/len(owners)))
		if err != nil {
			return found, err
		}
		found.Entries, found.Incomplete = append(found.Entries, entries...), found.Incomplete || !all
	}
	slices.SortFunc(found.Entries, func(a, b T) int { return cmp.Compare(s.position(&b), s.position(&a)) })
	found.Entries = slices.CompactFunc(found.Entries, func(a, b T) bool { return s.position(&a) == s.position(&b) })
	if len(found.Entries) > s.Most {
		found.Entries = found.Entries[:s.Most]
		found.Next = s.position(&found.Entries[s.Most-1])
	}
	return found, nil
}

// scan returns at least the newest Most+1 entries of an owner that the search selects, as far as it reads. all is false
// if it stopped after most entries.
func (s *Search[T]) scan(ctx context.Context, owner string, most int) (entries []T, all bool, err error) {
	to := s.end().Add(s.Late)
	for mark, read := "", 0; ; {
		page, next, err := s.Page(ctx, owner, s.From, to, mark, scanPage)
		if err != nil {
			return nil, false, err
		}
		for i := range page {
			if s.selects(&page[i]) {
				entries = append(entries, page[i])
			}
		}
		read, mark = read+len(page), next
		switch {
		case mark == "", len(entries) > s.Most:
			return entries, true, nil
		case read >= most:
			return entries, false, nil
		}
	}
}

// end returns the time of the newest entries that the search may select.
func (s *Search[T]) end() time.Time {
	text, _, _ := strings.Cut(s.Before, " ")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && time.Unix(0, n).Before(s.To) {
		return time.Unix(0, n)
	}
	return s.To
}

func (s *Search[T]) selects(e *T) bool {
	at, _ := s.At(e)
	return !at.Before(s.From) && !at.After(s.To) && (s.Before == "" || s.position(e) < s.Before) && s.Selects(e)
}

func (s *Search[T]) position(e *T) string { return Position(s.At(e)) }

// Position returns the sort key of an entry, in increasing order of time.
func Position(at time.Time, id string) string { return fmt.Sprintf("%020d %s", at.UnixNano(), id) }
