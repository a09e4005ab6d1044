package router

import "time"

// clock converts times to the router's unit: the time since an epoch. All tables of a Router share
// one clock.
type clock struct {
	source func() time.Time
	epoch  time.Time
}

func newClock(source func() time.Time) *clock {
	if source == nil {
		source = time.Now
	}
	return &clock{source: source, epoch: source()}
}

// now returns the current time.
func (c *clock) now() time.Duration { return c.at(time.Time{}) }

// at returns the time t, or now if t is zero.
func (c *clock) at(t time.Time) time.Duration {
	if t.IsZero() {
		t = c.source()
	}
	return t.Sub(c.epoch)
}
