package mcp

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
)

// noticeCopies is how often a piece is held while its notification is written: control characters become six.
const noticeCopies = 8

// leastProgress is that of a notification that has no number of its own: an MCP server may count parts of 1.
const leastProgress = 1e-6

// progress tells a client of the progress of its call. Its numbers increase (2025-11-25, Progress). It is safe for
// concurrent use.
type progress struct {
	session *sdk.ServerSession
	token   any

	mu    sync.Mutex
	sent  bool
	last  float64
	begun bool // there was a piece: repeated notifications are over
}

// piece sends a piece of the answer. What an MCP server sends is a notification itself. It waits for a client that
// reads slowly.
func (p *progress) piece(ctx context.Context, data []byte, relayed bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	release, err := request.HoldFor(ctx, noticeCopies*len(data))
	if err != nil {
		return err
	}
	defer release()
	n := &sdk.ProgressNotificationParams{}
	switch {
	case relayed && json.Unmarshal(data, n) == nil:
	default:
		n.Progress = math.Floor(p.last) + 1
		if utf8.Valid(data) {
			n.Message = string(data)
		}
	}
	return p.send(ctx, n)
}

// send sends a notification. Its progress is more than that of the last one. The caller holds mu.
func (p *progress) send(ctx context.Context, n *sdk.ProgressNotificationParams) error {
	if p.sent && n.Progress <= p.last {
		n.Progress = p.last + leastProgress
	}
	p.sent, p.last, n.ProgressToken = true, n.Progress, p.token
	if err := p.session.NotifyProgress(ctx, n); err != nil {
		return status.Error(codes.Canceled, "the client does not read its progress notifications")
	}
	return nil
}

// repeat tells a text now and after each interval, until there is a piece of the answer. The caller calls stop in the
// end.
func (p *progress) repeat(ctx context.Context, every time.Duration, text string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for p.again(ctx, text) {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// again tells a text. It is false once there was a piece of the answer, or the client has gone.
func (p *progress) again(ctx context.Context, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.begun && p.send(ctx, &sdk.ProgressNotificationParams{Message: text}) == nil
}
