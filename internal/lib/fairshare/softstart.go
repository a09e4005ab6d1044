package fairshare

import "time"

// SoftStartTime is the duration of a SoftStart. Other replicas, whose calls arrived at the same moment, ask
// meanwhile.
const SoftStartTime = 50 * time.Millisecond

// SoftStart limits a replica to its even share of a shared pool at first. After SoftStartTime the replica may
// ask for all that it needs. Long calls hold their permits, so a pool that one replica took at once could not
// be divided later. The zero value begins with a soft start.
type SoftStart struct {
	until time.Duration // zero: the replica needed no more than its even share
}

// Active reports whether the replica is limited to its even share at now.
func (c *SoftStart) Active(now time.Duration) bool { return now < c.until }

// Limit returns how much of need and spare to request in addition to held. started reports that a soft start has begun,
// so the replica must request again after SoftStartTime. The time is that of a monotonic clock.
func (c *SoftStart) Limit(now time.Duration, even, held, need, spare int64) (needs, spares int64, started bool) {
	if held+need+spare <= even {
		if now >= c.until {
			c.until = 0
		}
		return need, spare, false
	}
	if c.until == 0 {
		c.until, started = now+SoftStartTime, true
	}
	if room := max(even-held, 0); c.Active(now) {
		need = min(need, room)
		spare = min(spare, room-need)
	}
	return need, spare, started
}
