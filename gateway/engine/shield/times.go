package shield

import "time"

// millisecondsFrom distinguishes units of time: in milliseconds it is in 1973, in seconds the year 5138.
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
