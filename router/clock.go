package router

import "time"

// clock turns times into what the router calculates with: the time since an epoch.
// All tables of a Router share one.
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

func (c *clock) now() time.Duration { return c.at(time.Time{}) }

// at is the time t, or now if t is zero.
func (c *clock) at(t time.Time) time.Duration {
	if t.IsZero() {
		t = c.source()
	}
	return t.Sub(c.epoch)
}
