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
	// maxLate bounds the entries that a search reads besides, of all its owners, because they were added after the end
	// of a page. It is the most that an owner has.
	maxLate = 100_000
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
	// mark of the next page; "" if there is none. A mark is the time of the addition of the oldest one in ms, and what
	// follows a "-", as the id of an entry of a Redis stream.
	Page func(ctx context.Context, owner string, from, to time.Time, before string, most int) ([]T, string, error)
	// At returns the time and the id of an entry.
	At      func(*T) (time.Time, string)
	Selects func(*T) bool
}

// Found are entries.
type Found[T any] struct {
	Entries []T    // the newest first
	Next    string // Before of the next page; "" if there is none
	// Since is the time from which on entries were searched. Next goes on from there. Zero: the page is full, or all of
	// the range was searched.
	Since time.Time
	// Incomplete: some owners were not searched, or some entries.
	Incomplete bool
}

// Among returns a page of the entries of some owners.
func (s *Search[T]) Among(ctx context.Context, owners []string) (found Found[T], err error) {
	if len(owners) > MaxOwners {
		owners, found.Incomplete = owners[:MaxOwners], true
	}
	var since time.Time // the latest start of what was read of an owner
	late := maxLate
	for _, owner := range owners {
		entries, from, all, err := s.scan(ctx, owner, max(scanPage, maxScan/len(owners)), &late)
		if err != nil {
			return found, err
		}
		found.Entries, found.Incomplete = append(found.Entries, entries...), found.Incomplete || !all
		if from.After(since) {
			since = from
		}
	}
	if !since.IsZero() {
		found.Since, found.Next = since, Position(since, "")
		found.Entries = slices.DeleteFunc(found.Entries, func(e T) bool { return s.position(&e) < found.Next })
	}
	slices.SortFunc(found.Entries, func(a, b T) int { return cmp.Compare(s.position(&b), s.position(&a)) })
	found.Entries = slices.CompactFunc(found.Entries, func(a, b T) bool { return s.position(&a) == s.position(&b) })
	if len(found.Entries) > s.Most {
		found.Entries = found.Entries[:s.Most]
		found.Next, found.Since = s.position(&found.Entries[s.Most-1]), time.Time{}
	}
	return found, nil
}

// scan returns entries of an owner that the search selects, up to more than Most of them or as many as it reads. If it
// stopped before the end, since is a time from which on it has read all; what it has not read was added before, and so
// is older. It reads up to late more entries to get to an earlier time than the page, and takes them off late. all is
// false if that time is unknown, or no earlier than the page.
func (s *Search[T]) scan(ctx context.Context, owner string, most int, late *int) (entries []T, since time.Time,
	all bool, err error) {
	to := s.end().Add(s.Late)
	for mark, read := "", 0; ; {
		page, next, err := s.Page(ctx, owner, s.From, to, mark, scanPage)
		if err != nil {
			return nil, since, false, err
		}
		for i := range page {
			if s.selects(&page[i]) {
				entries = append(entries, page[i])
			}
		}
		read, mark = read+len(page), next
		if mark == "" {
			return entries, time.Time{}, true, nil
		}
		if len(entries) <= s.Most && read < most {
			continue
		}
		// Entries that were added after the end of the page must not hold up the search.
		added, ok := addedAt(mark)
		switch since = added.Add(time.Millisecond); {
		case ok && !since.After(s.From):
			return entries, time.Time{}, true, nil
		case ok && since.Before(s.end()):
			return entries, since, true, nil
		case *late <= 0 || !ok:
			return entries, time.Time{}, false, nil
		}
		*late -= scanPage
	}
}

// addedAt returns the time of a mark.
func addedAt(mark string) (time.Time, bool) {
	text, _, _ := strings.Cut(mark, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(ms), err == nil
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
