package mcp

import (
	"io"
	"sync"
	"time"
)

const (
	perEvent  = 4 << 10 // bytes that an event costs besides its own, whatever it has
	perStream = 16 * perEvent
	paceBytes = 100 * perEvent // per second, and at once after a pause
)

// pace bounds how fast messages are read that no request asked for, from all streams of one server. A server that sends
// more waits. It is a token bucket of bytes.
type pace struct {
	mu   sync.Mutex
	paid time.Time // until when the bytes that were read have been paid for
}

// take pays for bytes, and waits until that is done. It reports whether it was before done is closed.
func (p *pace) take(done <-chan struct{}, n int) bool {
	wait := p.reserve(n)
	if wait <= 0 {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// reserve pays for bytes. It returns how long the reader has to wait.
func (p *pace) reserve(n int) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if full := now.Add(-time.Second); p.paid.Before(full) {
		p.paid = full
	}
	p.paid = p.paid.Add(time.Duration(n) * time.Second / paceBytes)
	return p.paid.Sub(now)
}

// paced is the pace of one stream. A nil one does not wait.
type paced struct {
	of   *pace
	done <-chan struct{} // closed when the stream is over
}

// take returns an error once the stream is over: what is left in buffers is not wanted.
func (p *paced) take(n int) error {
	if p != nil && !p.of.take(p.done, n) {
		return io.ErrClosedPipe
	}
	return nil
}
