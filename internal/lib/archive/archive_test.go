package archive_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/archive"
	"github.com/capgate/capgate/internal/testkit/check"
)

// entry is one of an archive.
type entry struct {
	id           string
	ended, added time.Time
}

// entries are archived by owner, in the order of their addition.
type entries map[string][]entry

// page has the form that archive.Search requires.
func (all entries) page(_ context.Context, owner string, from, to time.Time, before string, most int) (
	page []entry, next string, err error) {
	last := len(all[owner])
	if _, number, found := strings.Cut(before, "-"); found {
		last, err = strconv.Atoi(number)
	}
	for i := last - 1; i >= 0 && len(page) < most; i-- {
		if e := all[owner][i]; !e.added.Before(from) && !e.added.After(to) {
			page, next = append(page, e), fmt.Sprintf("%d-%d", e.added.UnixMilli(), i)
		}
	}
	if len(page) < most {
		next = ""
	}
	return page, next, err
}

// TestASearchGoesOn: however many entries there are, however dense they are, and however late they were added, the
// pages of a search have each that it selects, once and the newest first. A page that does not read all says how far it
// got.
func TestASearchGoesOn(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	const late = 5 * time.Minute
	for name, test := range map[string]struct {
		owners, entries int
		every           time.Duration // between two entries of an owner
		wanted          int           // each of so many is selected
		said            bool          // a page stops before the end
	}{
		"few":            {2, 600, time.Second, 7, false},
		"one of many":    {1, 50_000, time.Second, 10_000, true},
		"many owners":    {40, 3000, time.Second, 1000, true},
		"dense":          {1, 30_000, time.Millisecond, 10_000, true},
		"at one time":    {1, 30_000, 0, 10_000, true},
		"all of some":    {3, 1000, time.Second, 1, false},
		"all, and dense": {2, 1000, 10 * time.Microsecond, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, owners, want := entries{}, []string(nil), 0
			for o := range test.owners {
				owner := strconv.Itoa(o)
				owners = append(owners, owner)
				for i := range test.entries {
					ended := began.Add(time.Duration(i) * test.every)
					e := entry{id: fmt.Sprintf("%d/%d", o, i), ended: ended, added: ended}
					if all[owner] = append(all[owner], e); i%test.wanted == 0 {
						want++
					}
				}
				delay(all[owner], late)
			}
			s := archive.Search[entry]{Late: late, Page: all.page,
				Range: archive.Range{From: began, To: began.Add(24 * time.Hour), Most: 100},
				At:    func(e *entry) (time.Time, string) { return e.ended, e.id },
				Selects: func(e *entry) bool {
					_, number, _ := strings.Cut(e.id, "/")
					n, _ := strconv.Atoi(number)
					return n%test.wanted == 0
				}}
			seen, said, last := map[string]bool{}, false, ""
			for pages := 0; ; pages++ {
				found, err := s.Among(t.Context(), owners)
				check.Must(t, err)
				for i := range found.Entries {
					e := &found.Entries[i]
					at := archive.Position(e.ended, e.id)
					if seen[e.id] || last != "" && at >= last || !found.Since.IsZero() && e.ended.Before(found.Since) {
						t.Fatalf("page %d: %s is twice, or out of order", pages, e.id)
					}
					seen[e.id], last = true, at
				}
				said = said || !found.Since.IsZero()
				if found.Incomplete || pages > 2000 {
					t.Fatalf("page %d is incomplete", pages)
				}
				if s.Before = found.Next; s.Before == "" {
					break
				}
			}
			if len(seen) != want || said != test.said {
				t.Errorf("%d entries, want %d; said %v", len(seen), want, said)
			}
		})
	}
}

// TestLateEntriesAreBounded: a page reads a bounded number of entries that were added after its end, however many
// owners have such.
func TestLateEntriesAreBounded(t *testing.T) {
	t.Parallel()
	began, all, owners, read := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), entries{}, []string(nil), 0
	dense := make([]entry, 10_000)
	for i := range dense {
		dense[i] = entry{id: strconv.Itoa(i), ended: began, added: began}
	}
	for o := range archive.MaxOwners {
		owners = append(owners, strconv.Itoa(o))
		all[owners[o]] = dense
	}
	s := archive.Search[entry]{Late: time.Minute,
		Page: func(ctx context.Context, owner string, from, to time.Time, before string, most int) ([]entry, string,
			error) {
			page, next, err := all.page(ctx, owner, from, to, before, most)
			read += len(page)
			return page, next, err
		},
		Range: archive.Range{From: began.Add(-time.Hour), To: began.Add(time.Hour), Most: 100,
			Before: archive.Position(began, "")},
		At:      func(e *entry) (time.Time, string) { return e.ended, e.id },
		Selects: func(*entry) bool { return true }}
	found, err := s.Among(t.Context(), owners)
	check.Must(t, err)
	if read > 120_000 || !found.Incomplete {
		t.Errorf("%d entries were read; incomplete: %v", read, found.Incomplete)
	}
}

// delay adds an entry to the second half of a page as late as permitted, as after an outage.
func delay(all []entry, late time.Duration) {
	n := len(all) / 2
	at := all[n].ended.Add(late - time.Second)
	for i := n - min(n, 100); i < n; i++ {
		if all[i].ended.Add(late).After(at) {
			all[i].added = at
		}
	}
	// In the order of their addition.
	moved := append([]entry(nil), all[n-min(n, 100):n]...)
	rest := append(append([]entry(nil), all[:n-min(n, 100)]...), all[n:]...)
	out := rest[:0:0]
	for _, e := range rest {
		for len(moved) > 0 && !moved[0].added.After(e.added) {
			out, moved = append(out, moved[0]), moved[1:]
		}
		out = append(out, e)
	}
	copy(all, append(out, moved...))
}
