package engine

import (
	"context"
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
