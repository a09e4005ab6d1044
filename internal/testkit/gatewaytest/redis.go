package gatewaytest

import (
	"crypto/rand"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/router"
)

// Redis is a real one that gateways share.
type Redis struct{ server *redistest.Server }

// StartRedis runs a Redis until the test ends.
func StartRedis(t testing.TB) *Redis {
	t.Helper()
	return &Redis{redistest.Start(t)}
}

// Open opens what one gateway shares, until the test ends.
func (r *Redis) Open(t testing.TB) *redisstore.Store {
	t.Helper()
	return OpenStore(t, r.server.URL())
}

// Permits are the places of limited fleets as one gateway sees them. It is patient, so that
// no busy machine makes Redis look away.
func (r *Redis) Permits(t testing.TB) router.PermitStore {
	t.Helper()
	return r.Open(t).Permits(rand.Text())
}
