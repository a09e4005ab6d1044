package gateway

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
)

// FleetCalls is the number of calls of a fleet that a drain waits for. A stream of an agent or a watcher counts as
// one.
type FleetCalls struct {
	Capability string `json:"capability"`
	Calls      int64  `json:"calls"`
}

// maxWaitedFor is the maximum number of fleets in Readiness and in the log.
const maxWaitedFor = 20

// tellWaiting is the interval of log lines about calls that a drain waits for.
const tellWaiting = 5 * time.Second

// waiting returns the fleets with calls in flight, in decreasing order of calls.
func (g *Gateway) waiting() []FleetCalls {
	var all []FleetCalls
	for _, f := range g.cfg.Routing.Router.Table().Fleets() {
		calls := int64(0)
		for _, b := range f.Backends {
			calls += b.InFlight()
		}
		if calls > 0 {
			all = append(all, FleetCalls{f.Capability, calls})
		}
	}
	slices.SortFunc(all, func(a, b FleetCalls) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Capability, b.Capability))
	})
	return all[:min(len(all), maxWaitedFor)]
}

// logWaiting logs the calls that a drain waits for, until ctx ends.
func (g *Gateway) logWaiting(ctx context.Context) {
	for {
		if fleets := g.waiting(); len(fleets) > 0 {
			g.cfg.Log.Info("waiting for calls", "fleets", fleets)
		}
		if !backoff.Sleep(ctx, tellWaiting) {
			return
		}
	}
}
