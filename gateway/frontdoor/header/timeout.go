package header

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"github.com/capgate/capgate/gateway/relay"
)

// Headers with the timeout of a request's call.
const (
	GRPCTimeout    = "Grpc-Timeout"    // as in gRPC, such as 1500m
	RequestTimeout = "Request-Timeout" // 1.5 seconds, or 1500ms
)

// Timeout returns the timeout that a request sets for its call, the shorter of the two headers; 0 means none. The
// error is for the client.
func Timeout(h http.Header) (time.Duration, error) {
	var shortest time.Duration
	for _, of := range []struct {
		name  string
		parse func(string) (time.Duration, bool)
		want  string
	}{
		{GRPCTimeout, relay.ParseTimeout, "must be 1 to 8 digits and one of H, M, S, m, u, n, like 1500m"},
		{RequestTimeout, parseSeconds, "must be a positive number of seconds, like 1.5, or a duration, like 1500ms"},
	} {
		for _, v := range h.Values(of.name) {
			d, ok := of.parse(textproto.TrimString(v))
			if !ok {
				return 0, fmt.Errorf("the header %s %s", of.name, of.want)
			}
			if shortest == 0 || d < shortest {
				shortest = d
			}
		}
	}
	return shortest, nil
}

func parseSeconds(v string) (time.Duration, bool) {
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		const most = 1e9 // about thirty years
		return time.Duration(min(s, most) * float64(time.Second)), s > 0
	}
	d, err := time.ParseDuration(v)
	return d, err == nil && d > 0
}
