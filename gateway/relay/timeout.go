package relay

import "time"

// ParseTimeout parses a grpc-timeout. Zero becomes a nanosecond, because the deadline has passed. ok is false for a
// malformed value.
func ParseTimeout(v string) (timeout time.Duration, ok bool) {
	d, ok := parseTimeout(v)
	if !ok {
		return 0, false
	}
	return max(d, 1), true
}

// parseTimeout parses a grpc-timeout: at most eight digits and a unit (gRPC over HTTP/2, "Requests").
func parseTimeout(v string) (time.Duration, bool) {
	n := len(v) - 1
	if n < 1 || n > 8 {
		return 0, false
	}
	var unit time.Duration
	switch v[n] {
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
	var value int64
	for i := range n {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		value = 10*value + int64(v[i]-'0')
	}
	if value > int64(maxTimeout/unit) {
		return maxTimeout, true
	}
	return time.Duration(value) * unit, true
}

// maxTimeout is the maximum timeout that a client can request, far above any deadline in use.
const maxTimeout = 1 << 62

// appendTimeout writes d in the finest unit that fits into eight digits.
func appendTimeout(b []byte, d time.Duration) []byte {
	d = max(d, time.Microsecond)
	unit, name := time.Microsecond, byte('u')
	switch {
	case d < 1e8*time.Microsecond:
	case d < 1e8*time.Millisecond:
		unit, name = time.Millisecond, 'm'
	case d < 1e8*time.Second:
		unit, name = time.Second, 'S'
	default:
		unit, name = time.Hour, 'H'
	}
	var digits [20]byte
	i := len(digits)
	for v := uint64(d / unit); ; v /= 10 {
		i--
		digits[i] = byte('0' + v%10)
		if v < 10 {
			break
		}
	}
	return append(append(b, digits[i:]...), name)
}
