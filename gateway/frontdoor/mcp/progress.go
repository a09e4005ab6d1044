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

// noticeCopies is the maximum number of copies of a chunk while its notification is written: control characters become
// six.
const noticeCopies = 8

// leastProgress is the step of notifications without a number: an MCP server may count fractions of 1.
const leastProgress = 1e-6

// progress sends progress notifications of a call. Its numbers increase (2025-11-25, Progress). It is safe for
// concurrent use.
type progress struct {
	session *sdk.ServerSession
	token   any

	mu    sync.Mutex
	sent  bool
	last  float64
	begun bool // a chunk was sent, so repeated notifications have ended
}

// piece sends a chunk of the response. For an MCP server it is a notification itself. It waits for a slow reader.
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

// send sends a notification with a greater number than the last one. The caller must hold mu.
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

// repeat sends a text now and after each interval, until there is a chunk of the response. The caller must call stop.
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

// again sends a text. It returns false once there is a chunk of the response, or the client has disconnected.
func (p *progress) again(ctx context.Context, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.begun && p.send(ctx, &sdk.ProgressNotificationParams{Message: text}) == nil
}
