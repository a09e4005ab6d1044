package rest

import (
	"math"
	"net/http"
	"strconv"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
)

// windows holds the fixed windows of limits, in seconds.
//
//nolint:gochecknoglobals // a table
var windows = map[string]string{"calls_per_second": "1", "bytes_per_second": "1", "per_day": "86400"}

// tellLimit sets the headers of the limit that rejected a call: those of draft-ietf-httpapi-ratelimit-headers-10, and
// the three older X-RateLimit headers.
func tellLimit(head http.Header, p *problem.Problem) {
	limit, most := p.Metadata["limit"], p.Metadata["max"]
	if limit == "" || most == "" {
		return
	}
	policy, now := strconv.Quote(limit)+";q="+most, strconv.Quote(limit)+";r=0"
	if w := windows[limit]; w != "" {
		policy += ";w=" + w
	}
	head.Set("RateLimit-Limit", most)
	head.Set("RateLimit-Remaining", "0")
	if p.RetryAfter > 0 {
		reset := strconv.FormatFloat(math.Ceil(p.RetryAfter), 'f', 0, 64)
		now += ";t=" + reset
		head.Set("RateLimit-Reset", reset)
	}
	head.Set("RateLimit-Policy", policy)
	head.Set("RateLimit", now)
}
