package sim

import (
	"context"
	"math/rand/v2"
	"time"
)

// Actor is a user of the product, on its own goroutine.
type Actor struct {
	*rand.Rand

	name string
	w    *Simulation
}

// Go starts an actor. The run ends when f has returned for all actors.
func (w *Simulation) Go(name string, f func(a *Actor)) {
	w.mu.Lock()
	w.alive++
	w.mu.Unlock()
	a := &Actor{Rand: w.Rand(name), name: name, w: w}
	w.actors.Go(func() {
		defer func() {
			w.mu.Lock()
			w.alive--
			w.mu.Unlock()
		}()
		f(a)
	})
}

type actorKey struct{}

// As returns a context for work that a replica does for the actor.
func (a *Actor) As(ctx context.Context) context.Context {
	return context.WithValue(ctx, actorKey{}, a.name)
}

// Turn waits for this actor's turn. It returns false at the end of the run, or with ctx.
func (a *Actor) Turn(ctx context.Context, what string) bool { return a.TurnWhen(ctx, what, nil) }

// Pause pauses the actor for a random time below a maximum. It returns false at the end of the run, or with ctx.
func (a *Actor) Pause(ctx context.Context, most time.Duration) bool {
	t := time.NewTimer(time.Duration(a.Int64N(int64(most))))
	defer t.Stop()
	select {
	case <-t.C:
		a.w.poke()
		return true
	case <-ctx.Done():
	case <-a.w.stopped:
	}
	return false
}

// TurnWhen is Turn for a step that requires a condition; nil means always.
func (a *Actor) TurnWhen(ctx context.Context, what string, possible func() bool) bool {
	e := &Event{Key: a.name + ": " + what, cause: a.name}
	if possible != nil {
		e.held = func() bool { return !possible() }
	}
	return a.w.await(ctx, e) == nil
}
