package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// pump writes the items of feed one after the other, so that feed waits for the reader, and calls beat
// periodically in between. When feed has ended, it returns feed's error and over is true. If write or beat fails,
// it returns that error with feed's. In both cases feed has ended.
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

// live is a response that is flushed after each write.
type live struct {
	w       http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration // how long the client may take to read a slice
	head    map[string]string
	prelude string // before all
	late    func() // sets headers when the response begins; may be nil
	begun   bool
}

// slice is how much is written before the client's time begins anew, in bytes.
const slice = 64 << 10

func newLive(w http.ResponseWriter, contentType, cacheControl string, slow time.Duration) *live {
	return &live{w: w, control: http.NewResponseController(w), slow: slow, head: map[string]string{
		"Content-Type": contentType, "Cache-Control": cacheControl,
		"X-Accel-Buffering": "no", // nginx
	}}
}

// write sends a part now, or fails if the client takes too long to read it.
func (o *live) write(part []byte) error {
	if !o.begun {
		o.begun = true
		for name, value := range o.head {
			o.w.Header().Set(name, value)
		}
		if o.late != nil {
			o.late()
		}
		o.limit()
		o.w.WriteHeader(http.StatusOK)
		part = append([]byte(o.prelude), part...)
	}
	for len(part) > 0 {
		n := min(len(part), slice)
		o.limit()
		if _, err := o.w.Write(part[:n]); err != nil {
			return err
		}
		part = part[n:]
	}
	return o.control.Flush()
}

// limit lets the client's time begin.
func (o *live) limit() {
	_ = o.control.SetWriteDeadline(time.Now().Add(o.slow)) // unsupported: the response ends with the connection
}

// end makes the connection ready for another request.
func (o *live) end() { _ = o.control.SetWriteDeadline(time.Time{}) }
