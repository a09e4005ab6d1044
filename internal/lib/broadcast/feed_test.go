package broadcast_test

import (
	"slices"
	"testing"

	"github.com/capgate/capgate/internal/lib/broadcast"
)

// unread returns the values that a reader has not read, and whether it has missed any since the last call.
func unread(r *broadcast.Reader[int]) (values []int, missed bool) {
	for len(r.Values) > 0 {
		values = append(values, <-r.Values)
	}
	select {
	case <-r.Missed:
		missed = true
	default:
	}
	return values, missed
}

// TestFeed: a slow reader learns once that it has missed values, and goes on with later ones. Values that a reader does
// not select take none of its room.
func TestFeed(t *testing.T) {
	t.Parallel()
	var f broadcast.Feed[int]
	f.Send(0) // before any reader
	all := f.Join(3, nil)
	even := f.Join(3, func(v int) bool { return v%2 == 0 })
	left := f.Join(3, nil)
	f.Leave(left)
	if n := f.Readers(); n != 2 {
		t.Errorf("%d readers, want 2", n)
	}
	expect := func(after string, r *broadcast.Reader[int], want []int, wantMissed bool) {
		t.Helper()
		if got, missed := unread(r); !slices.Equal(got, want) || missed != wantMissed {
			t.Errorf("after %s: %d, missed %v; want %d, %v", after, got, missed, want, wantMissed)
		}
	}
	for v := range 6 {
		f.Send(v + 1)
	}
	expect("six values", all, []int{1, 2, 3}, true)
	expect("six values", even, []int{2, 4, 6}, false)
	f.Send(7)
	expect("a further one", all, []int{7}, false)
	expect("a further one", even, nil, false)
	f.Miss()
	f.Miss()
	expect("a gap", all, nil, true)
	expect("a gap", even, nil, true)
	expect("a gap", left, nil, false)
}
