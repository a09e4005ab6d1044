package gatewaytest

import (
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
)

// OpenStore opens what gateways share, until the test ends: a Redis inside this process
// for "embedded", else the one at url. It is patient, so that no busy machine makes it
// look away.
func OpenStore(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(redisstore.Config{URL: url, Timeout: Patience, Dial: Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
