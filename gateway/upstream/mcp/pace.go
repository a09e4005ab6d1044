package mcp

import (
	"context"
	"io"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

const (
	perEvent  = 4 << 10 // cost of an event besides its own bytes
	perStream = 16 * perEvent
	paceBytes = 100 * perEvent // bytes per second, and burst after a pause

	sharedPace = 10 // pace of all streams of a server that serve callers, in paces of one
)

// newPace returns the rate limit of unsolicited messages from the streams that share it. A server that sends more has
// to wait. A token is a byte.
func newPace() *tokenbucket.Bucket { return tokenbucket.New(paceBytes, time.Second/paceBytes) }

// newSharedPace returns the rate limit of unsolicited messages from all streams of a server that serve callers. Each
// has newPace as well.
func newSharedPace() *tokenbucket.Bucket {
	return tokenbucket.New(sharedPace*paceBytes, time.Second/(sharedPace*paceBytes))
}

// paced is the pace of one stream. A nil paced does not wait.
type paced struct {
	of  *tokenbucket.Bucket
	all *tokenbucket.Bucket // of the server; nil means none
	ctx context.Context     //nolint:containedctx // of the stream
}

// take takes bytes from the bucket, and waits as long as necessary. It returns an error once the stream has ended,
// because buffered data is not needed.
func (p *paced) take(n int) error {
	if p == nil {
		return nil
	}
	now := time.Now()
	wait := p.of.Spend(now, n)
	if p.all != nil {
		wait = max(wait, p.all.Spend(now, n))
	}
	if p.ctx.Err() != nil || wait > 0 && !backoff.Sleep(p.ctx, wait) {
		return io.ErrClosedPipe
	}
	return nil
}
