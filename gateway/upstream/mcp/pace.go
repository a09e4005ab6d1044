package mcp

import (
	"context"
	"io"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

const (
	perEvent  = 4 << 10 // bytes that an event costs besides its own, whatever it has
	perStream = 16 * perEvent
	paceBytes = 100 * perEvent // per second, and at once after a pause
)

// newPace returns what bounds how fast messages are read that no request asked for, from all streams of one server. A
// server that sends more waits. A token is a byte.
func newPace() *tokenbucket.Bucket { return tokenbucket.New(paceBytes, time.Second/paceBytes) }

// paced is the pace of one stream. A nil one does not wait.
type paced struct {
	of  *tokenbucket.Bucket
	ctx context.Context //nolint:containedctx // of the stream
}

// take pays for bytes, and waits until they are paid for. It returns an error once the stream is over: what is left in
// buffers is not wanted.
func (p *paced) take(n int) error {
	if p == nil {
		return nil
	}
	wait := p.of.Spend(time.Now(), n)
	if p.ctx.Err() != nil || wait > 0 && !backoff.Sleep(p.ctx, wait) {
		return io.ErrClosedPipe
	}
	return nil
}
