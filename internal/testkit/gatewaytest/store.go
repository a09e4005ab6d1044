package gatewaytest

import (
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// OpenStore opens a store that gateways share, until the test ends: an embedded Redis for "embedded", otherwise the one
// at url. Its timeout is long, so that Redis does not appear unavailable on a busy machine.
func OpenStore(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(redisstore.Config{URL: url, Timeout: check.Patience, Dial: check.Patience})
	check.Must(t, err)
	check.Cleanup(t, s.Close)
	return s
}
