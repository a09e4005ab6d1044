package gatewaytest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	"github.com/capgate/capgate/router"
)

// Redis is a real Redis that gateways share.
type Redis struct{ server *redistest.Server }

// StartRedis runs a Redis until the test ends.
func StartRedis(t testing.TB) *Redis {
	t.Helper()
	return &Redis{redistest.Start(t)}
}

// Open opens the store of one gateway, until the test ends.
func (r *Redis) Open(t testing.TB) *redisstore.Store {
	t.Helper()
	return OpenStore(t, r.server.URL())
}

// OpenPrompt is Open with a shorter timeout, for tests in which Redis does not respond.
func (r *Redis) OpenPrompt(t testing.TB) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(redisstore.Config{URL: r.server.URL(), Timeout: 5 * time.Second})
	check.Must(t, err)
	check.Cleanup(t, s.Close)
	return s
}

// Freeze stops the process: connections stay, without responses.
func (r *Redis) Freeze() { r.server.Freeze() }

// Thaw ends a Freeze.
func (r *Redis) Thaw() { r.server.Thaw() }

// Empty deletes all data.
func (r *Redis) Empty() { r.server.Do("FLUSHALL") }

// Permits returns one gateway's store of permits. Its timeout is long, so that Redis does not seem unavailable on a
// busy machine.
func (r *Redis) Permits(t testing.TB) router.PermitStore {
	t.Helper()
	return r.Open(t).Permits(rand.Text())
}
