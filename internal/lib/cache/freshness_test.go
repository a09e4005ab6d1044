package cache_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/internal/lib/cache"
)

// TestEntriesExpire after four to six fifths of their time, unless the store is silent: then all are valid for a time.
func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	const silent = 5 * time.Second // after which the store counts as silent
	for what, test := range map[string]struct {
		sync, now     time.Duration // after the entry was loaded
		valid, usable bool
	}{
		"new":                            {0, 0, true, true},
		"four fifths":                    {8 * time.Second, 8 * time.Second, true, true},
		"six fifths and more":            {13 * time.Second, 13 * time.Second, false, true},
		"the store is not yet silent":    {13 * time.Second, 13*time.Second + silent, false, true},
		"the store is silent":            {13 * time.Second, 14*time.Second + silent, true, true},
		"the store is silent for long":   {13 * time.Second, 13*time.Second + time.Minute, true, true},
		"the store is silent for longer": {13 * time.Second, 14*time.Second + time.Minute, false, false},
	} {
		for range 100 { // the time is drawn
			now := time.Unix(1e9, 0)
			f := cache.NewFreshness(10*time.Second, time.Minute, func() time.Time { return now })
			now = now.Add(time.Hour)
			until := f.Expiry()
			loaded := now
			now = loaded.Add(test.sync)
			f.Synced(f.Now())
			now = loaded.Add(test.now)
			if f.Valid(until) != test.valid || f.Usable() != test.usable {
				t.Fatalf("%s: valid %v, usable %v", what, f.Valid(until), f.Usable())
			}
			if f.Age() != test.now-test.sync || time.Duration(f.LastSync()) != time.Hour+test.sync {
				t.Fatalf("%s: age %v, last sync %v", what, f.Age(), f.LastSync())
			}
		}
	}
}

// TestAt: a time that was read before is as old as it is, and is not read from the system's clock if there is another.
func TestAt(t *testing.T) {
	t.Parallel()
	f := cache.NewFreshness(time.Second, time.Second, nil)
	before := f.Now()
	read := time.Now()
	if at := f.At(read); at < before || at > f.Now() {
		t.Errorf("%d is not between %d and now", at, before)
	}
	if past := f.At(read.Add(-time.Hour)); past != f.At(read)-int64(time.Hour) {
		t.Errorf("an hour before is %d", past)
	}
	if now := f.At(time.Time{}); now < f.At(read) {
		t.Errorf("now is %d", now)
	}
	own := time.Unix(1e9, 0)
	f = cache.NewFreshness(time.Second, time.Second, func() time.Time { return own })
	if own = own.Add(time.Minute); f.At(read) != int64(time.Minute) {
		t.Errorf("another clock has %d", f.At(read))
	}
}

// TestALossIsRecorded until the data is back.
func TestALossIsRecorded(t *testing.T) {
	t.Parallel()
	f := cache.NewFreshness(time.Second, time.Second, nil)
	for _, lost := range []bool{false, true, false} {
		before := f.Lost()
		if f.StoreLost(lost) != before || f.Lost() != lost {
			t.Errorf("lost %v: before %v, now %v", lost, before, f.Lost())
		}
	}
}
