package health

import (
	"context"

	"google.golang.org/grpc"
)

// Question is the probe of a fleet whose backends do not implement Healthcheck. It is safe for concurrent use.
// Questions are comparable: two that probe alike are equal.
type Question interface {
	// Probe probes a backend once. The error is that of a call without a usable reply, after which the connection is
	// closed.
	Probe(ctx context.Context, conn grpc.ClientConnInterface) (Result, error)
}

// askQuestion makes the probe of another protocol.
func (c *client) askQuestion(ctx context.Context) (Result, error) {
	r, err := c.question.Probe(ctx, c.conn)
	r.Reason = clip(r.Reason)
	return r, err
}
