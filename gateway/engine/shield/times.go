package shield

import "time"

// millisecondsFrom separates units of time: as milliseconds it is in 1973, as seconds in the year 5138.
const millisecondsFrom = 100_000_000_000

// timeOf converts a time in seconds or milliseconds.
func timeOf(n int64) time.Time {
	switch {
	case n <= 0:
		return time.Time{}
	case n < millisecondsFrom:
		return time.Unix(n, 0)
	}
	return time.UnixMilli(n)
}
