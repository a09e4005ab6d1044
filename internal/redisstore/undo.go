package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/recovery"
)

const (
	maxUndos = 1000        // concurrent ones, which tenants share; writes of further calls stay until they expire
	undoFor  = time.Minute // after that a write stays
)

// undo undoes a write of a tenant's call that does not run because the write failed with why: too few replicas have it,
// or Redis may have executed it although no answer came. try may be repeated, and reports whether it found the write.
func (s *Store) undo(
	ctx context.Context, tenant string, why error, try func(context.Context) (undone bool, err error),
) {
	var answer redis.Error
	known := errors.Is(why, ErrUnreplicated)
	switch {
	case errors.Is(why, ErrUnavailable), !known && errors.As(why, &answer):
		return // nothing was written
	case known:
		if _, err := try(context.WithoutCancel(ctx)); err == nil {
			return
		}
	}
	share := s.undoing.Of(tenant)
	if !share.Reserve(1) {
		return
	}
	select {
	case s.undos <- struct{}{}:
	default: // the store is closed
		share.Release(1)
		return
	}
	go func() {
		defer func() { <-s.undos; share.Release(1) }() // so that a share always has a place
		recovery.Round("undo a write to redis", func() { s.undoLater(try) })
	}()
}

// endUndos waits for all running undos, and prevents new ones.
func (s *Store) endUndos() {
	for range cap(s.undos) {
		s.undos <- struct{}{}
	}
}

// undoLater tries until the write is undone. If it is not found, it may still arrive: it is looked for once more.
func (s *Store) undoLater(try func(context.Context) (undone bool, err error)) {
	ctx, cancel := context.WithTimeout(s.life, undoFor)
	defer cancel()
	missed := false
	for wait := firstWait; s.breaker.pause(ctx, wait); wait = min(2*wait, lastWait) {
		undone, err := try(ctx)
		switch {
		case err != nil:
		case undone || missed:
			return
		default:
			missed, wait = true, lastWait
		}
	}
}
