package overload

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// measureEvery bounds the ticks between two measurements of the live heap.
const measureEvery = 25

// Watch gives the Shedder its signals until ctx ends. turn returns when bytes that a client sent now would be
// processed.
func (s *Shedder) Watch(ctx context.Context, turn func()) error {
	d, err := newDelay(turn)
	if err != nil {
		return fmt.Errorf("watch for overload: %w", err)
	}
	defer d.close()
	mem, cpu := newMemory(s.cfg.MaxMemory), newProcessor(os.DirFS("/"))
	ticker := time.NewTicker(Tick)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := Signals{Delay: d.measure()}
		if s.cfg.MaxDelay > 0 {
			now.Delay = cpu.ownDelay(now.Delay, s.cfg.MaxDelay, time.Now())
		}
		if mem.limit > 0 {
			now.Memory = mem.measure(n%measureEvery == 0)
		}
		s.Tick(now)
	}
}

// delay measures how long bytes wait. It sends bytes to the process itself, on the path of clients' bytes:
// through the poller and the scheduler, then turn.
type delay struct {
	r, w  *os.File
	epoch time.Time
	sent  atomic.Int64 // send time of the bytes in flight, since epoch; 0: none
	last  atomic.Int64 // the last duration, in nanoseconds
	done  sync.WaitGroup
}

func newDelay(turn func()) (*delay, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	d := &delay{r: r, w: w, epoch: time.Now().Add(-time.Second)}
	d.done.Go(func() {
		var b [1]byte
		for {
			if _, err := io.ReadFull(r, b[:]); err != nil {
				return
			}
			turn()
			d.last.Store(d.now() - d.sent.Load())
			d.sent.Store(0)
		}
	})
	return d, nil
}

func (d *delay) now() int64 { return int64(time.Since(d.epoch)) }

// measure returns the duration of the last bytes, or their age if they are still in flight, and sends again.
func (d *delay) measure() time.Duration {
	if sent := d.sent.Load(); sent != 0 {
		return time.Duration(d.now() - sent)
	}
	last := d.last.Load()
	d.sent.Store(d.now())
	if _, err := d.w.Write([]byte{0}); err != nil {
		d.sent.Store(0)
	}
	return time.Duration(last)
}

func (d *delay) close() {
	_ = d.w.Close() // the reader gets EOF
	d.done.Wait()
	_ = d.r.Close()
}
