package engine

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// onward makes the call itself.
func (g *Guard) onward(ctx context.Context, path string, msg []byte) (answer []byte, err error) {
	ctx, opts := g.cfg.Onward(ctx)
	err = g.cfg.Conn.Invoke(ctx, path, &msg, &answer, opts...)
	return answer, err
}

// beside makes a call of the Guard's own to the same engine.
func (g *Guard) beside(ctx context.Context, p *Passage, path string, msg []byte) (answer []byte, err error) {
	ctx, opts := g.cfg.Beside(ctx, p.Fleet, p.Backend)
	err = g.cfg.Own.Invoke(ctx, path, &msg, &answer, opts...)
	return answer, err
}

// before are the gateway's reasons to refuse a call before a backend could have it.
var before = map[string]bool{
	"BACKEND_UNREACHABLE": true, "NO_BACKEND": true, "CONCURRENCY_LIMIT": true, "OVERLOADED": true, "SERVICE_UNAVAILABLE": true,
}

// unsent says that a call provably did not get to an engine.
func unsent(st *status.Status) bool {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetDomain() == "capgate.dev" && before[info.GetReason()]
		}
	}
	return false
}
