package gatewaytest

import (
	"crypto/rand"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/redistest"
	"github.com/capgate/capgate/router"
)

// Redis is a real one that gateways share.
type Redis struct{ server *redistest.Server }

// StartRedis runs a Redis until the test ends.
func StartRedis(t testing.TB) *Redis {
	t.Helper()
	return &Redis{redistest.Start(t)}
}

// Slots are the places of limited fleets as one gateway sees them. It is patient, so that
// no busy machine makes Redis look away.
func (r *Redis) Slots(t testing.TB) router.Slots {
	t.Helper()
	s, err := redisstore.Open(redisstore.Config{URL: r.server.URL(), Timeout: Patience, Dial: Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.Slots(rand.Text())
}
