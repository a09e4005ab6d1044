package fairshare

import "time"

// CourtesyTime is how long a Courtesy lasts: others whose calls came at the same moment ask meanwhile.
const CourtesyTime = 50 * time.Millisecond

// Courtesy has a replica ask for no more than its even part of a shared pool at first, and for all that it needs
// CourtesyTime later: what long calls hold by then cannot be divided any more. The zero value asks politely.
type Courtesy struct {
	ends time.Duration // 0: no more than the even part was needed
}

// Restrains says whether no more than the even part is asked for at now.
func (c *Courtesy) Restrains(now time.Duration) bool { return now < c.ends }

// Ask restrains what is asked for beside kept: what calls need, and some to spare. began says that the courtesy
// has begun: after CourtesyTime the replica asks again. now is of a monotonic clock.
func (c *Courtesy) Ask(now time.Duration, even, kept, need, spare int64) (needs, spares int64, began bool) {
	if kept+need+spare <= even {
		if now >= c.ends {
			c.ends = 0
		}
		return need, spare, false
	}
	if c.ends == 0 {
		c.ends, began = now+CourtesyTime, true
	}
	if room := max(even-kept, 0); c.Restrains(now) {
		need = min(need, room)
		spare = min(spare, room-need)
	}
	return need, spare, began
}
