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

// looks is how many ticks there are at the most from one look at what lives to the next.
const looks = 25

// Watch tells the Shedder of its surroundings until ctx ends. turn is to return when bytes
// of a client that came now would be dealt with.
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
			now.Delay = cpu.own(now.Delay, s.cfg.MaxDelay, time.Now())
		}
		if mem.limit > 0 {
			now.Memory = mem.look(n%looks == 0)
		}
		s.Tick(now)
	}
}

// delay measures how long bytes wait: it sends some to the process itself, on the way that
// those of clients take, by the poller and the scheduler and then by turn.
type delay struct {
	r, w  *os.File
	epoch time.Time
	sent  atomic.Int64 // when what is under way was sent, since epoch; 0: nothing is
	last  atomic.Int64 // how long the last took, in nanoseconds
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

// measure says how long what it sent the last time took, or has taken until now, and sends
// again.
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
	_ = d.w.Close() // the reader comes to the end
	d.done.Wait()
	_ = d.r.Close()
}
