package watch

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// Full is the refusal of a watch if no slot is free.
var Full = &call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHERS_FULL", RetryAfter: 5 * time.Second,
	Message: "too many watches are open already"}

var refusedLeaving = &call.Refusal{Kind: call.Unavailable, Reason: "DRAINING", RetryAfter: time.Second,
	Message: "the gateway is stopping; resume after the last event"}

// Slots limits concurrent watches. It is safe for concurrent use.
type Slots struct {
	pool    *fairshare.Pool
	leaving context.Context
}

// NewSlots returns n slots, in a pool with a name. All watches end when leaving ends.
func NewSlots(leaving context.Context, name string, n int64) *Slots {
	return &Slots{pool: fairshare.New(name, n), leaving: leaving}
}

// Hold runs feed in a slot of the owner. The context of feed ends with ctx, and when the gateway stops. The error is
// that of feed, or a *call.Refusal: Full, or that the gateway is stopping.
func (s *Slots) Hold(ctx context.Context, owner string, feed func(context.Context) error) error {
	release, err := s.Take(owner)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	err = feed(ctx)
	if s.leaving.Err() != nil {
		return refusedLeaving
	}
	return err
}

// Take takes a slot of the owner, for a watch that the caller ends when the gateway stops. The caller must call
// release. The error is that of Hold.
func (s *Slots) Take(owner string) (release func(), err error) {
	slot := s.pool.Of(owner)
	if !slot.Reserve(1) {
		return nil, Full
	}
	release = func() { slot.Release(1) }
	if s.leaving.Err() != nil {
		release()
		return nil, refusedLeaving
	}
	return release, nil
}
