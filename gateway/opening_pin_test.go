package gateway

import (
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/testkit/filtertest"
	"github.com/capgate/capgate/router"
	"github.com/capgate/capgate/router/affinity"
)

// TestPinIsUsedFromTheResponse: once the response has started, the backend may have state of the session: a call that
// does not reach it does not move the session. Before that, it does.
func TestPinIsUsedFromTheResponse(t *testing.T) {
	t.Parallel()
	h := &handler{driver: newDriver(status.NewCache())}
	h.driver.stream = func(*callState) stream { return &fakeStream{} }
	for _, responds := range []bool{false, true} {
		q := affinity.Query{Tenant: "acme", Session: "s", Fleet: filtertest.Fleet(router.FleetConfig{
			Backends: router.Addrs("a:1", "b:1"), Affinity: router.Affinity{Sessions: true, SessionTTL: time.Hour}})}
		r := affinity.New(affinity.Config{}, nil)
		pin, _ := r.Lookup(&q)
		c, s := started(h, openingFilter{&authorize.State{}})
		if c.Pin = pin; responds {
			h.Started(s)
		}
		q.Tried = pin.Backend
		again, _ := r.Lookup(&q)
		if pin.Backend == nil || again.Backend == pin.Backend != responds {
			t.Errorf("response started %t: first %v, then %v", responds, pin.Backend, again.Backend)
		}
	}
}
