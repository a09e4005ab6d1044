package registry

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/signal"
)

// Limits of lookups of a name without addresses, before its interval is over.
const (
	minBackoff   = 100 * time.Millisecond // after the first lookup; doubled each time, up to the interval
	maxWantedGap = 500 * time.Millisecond // between two lookups while calls wait for a backend
	wantedFor    = time.Second            // how long such a call waits, about
	maxWanted    = 64                     // demands that wait to be carried out; others are dropped
)

// Expedite requests early lookups of a capability's names that have no addresses, because calls wait for a backend.
// The lookups are bounded, however often it is called. It does not block.
func (r *Registry) Expedite(capability string) {
	select {
	case r.demands <- capability:
	default:
	}
}

// expedite carries out demands until ctx ends.
func (r *Registry) expedite(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case capability := <-r.demands:
			r.mu.Lock()
			for i := range r.settings.Targets {
				if t := &r.settings.Targets[i]; t.Capability == capability && len(r.answers[t.Name]) == 0 {
					if s := r.schedules[t.Name]; s != nil {
						signal.Wake(s.sooner)
					}
				}
			}
			r.mu.Unlock()
		}
	}
}

// schedule says when a name is looked up next. But for sooner, it belongs to the name's goroutine.
type schedule struct {
	sooner  chan struct{} // signals that calls wait for a backend
	wanted  time.Time     // until when they do
	backoff time.Duration // of a name without addresses
}

// pause waits until the next lookup of a name that has no addresses if absent is set. It returns false when ctx ends.
func (s *schedule) pause(ctx context.Context, interval time.Duration, absent bool) bool {
	if !absent {
		s.backoff = 0
		return backoff.Sleep(ctx, backoff.Jitter(interval, jitter))
	}
	s.backoff = min(max(2*s.backoff, minBackoff), interval)
	wait, least := backoff.Jitter(s.backoff, jitter), min(s.backoff, maxWantedGap)
	if time.Now().Before(s.wanted) {
		wait = min(wait, least)
	}
	if !backoff.Sleep(ctx, min(wait, least)) {
		return false
	}
	if signal.Wait(ctx, s.sooner, wait-least) {
		s.wanted = time.Now().Add(wantedFor)
	}
	return ctx.Err() == nil
}
