package rest

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// pump writes the items of feed one after the other, so that feed waits for the reader, and calls beat periodically in
// between. When feed has ended, pump returns its error, and over is true. If write or beat fails, pump cancels feed,
// waits for its end, and returns both errors.
func pump[T any](ctx context.Context, every time.Duration, feed func(context.Context, func(T) error) error,
	write func(T) error, beat func() error) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told, ended := make(chan T), make(chan error, 1)
	go func() {
		ended <- recovery.Do("rest feed", func() error {
			return feed(ctx, func(v T) error {
				select {
				case told <- v:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for err == nil {
		select {
		case v := <-told:
			err = write(v)
		case <-ticker.C:
			err = beat()
		case err = <-ended:
			return true, err
		}
	}
	cancel()
	return false, errors.Join(err, <-ended)
}
