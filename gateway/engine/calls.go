package engine

import (
	"context"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// forward continues the call itself.
func (g *Guard) forward(ctx context.Context, path string, msg []byte) (answer []byte, err error) {
	ctx, opts := g.cfg.Continue(ctx)
	err = g.cfg.Conn.Invoke(ctx, path, &msg, &answer, opts...)
	return answer, err
}

// subrequest makes the Guard's own call to the same engine.
func (g *Guard) subrequest(ctx context.Context, p *Call, path string, msg []byte) (answer []byte, err error) {
	ctx, opts := g.cfg.Subrequest(ctx, p.Fleet, p.Backend)
	err = g.cfg.Internal.Invoke(ctx, path, &msg, &answer, opts...)
	return answer, err
}

// unsent reports whether a call provably did not reach an engine.
func unsent(err error) bool { return status.InfoOf(err).GetMetadata()[call.NotStarted] == "true" }
