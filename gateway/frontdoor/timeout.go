package frontdoor

import (
	"strconv"
	"time"
)

// GRPCTimeout reads a value of grpc-timeout, as gRPC over HTTP/2 defines it. Zero becomes the shortest time there is:
// the deadline has passed. It is false for a malformed value.
func GRPCTimeout(v string) (timeout time.Duration, ok bool) {
	if len(v) < 2 || len(v) > 9 {
		return 0, false
	}
	n, err := strconv.ParseUint(v[:len(v)-1], 10, 32)
	if err != nil {
		return 0, false
	}
	var unit time.Duration
	switch v[len(v)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	const longest = 1 << 62
	if n > uint64(longest/unit) {
		return longest, true
	}
	return max(time.Duration(n)*unit, 1), true
}
