package health

import (
	"context"

	"google.golang.org/grpc"
)

// Question probes the backends of a fleet that do not implement Healthcheck. It is safe for concurrent use.
// Questions are comparable: two that probe in the same way are equal.
type Question interface {
	// Probe probes a backend once. The error is that of a call without a usable reply, after which the connection is
	// closed.
	Probe(ctx context.Context, conn grpc.ClientConnInterface) (Result, error)
}

// Direct is a Question to a backend that does not speak gRPC, which it reaches by itself. Probe is not called.
type Direct interface {
	Question
	// ProbeAddr probes the backend at an address once. Its Result need not have a Dialect.
	ProbeAddr(ctx context.Context, addr string) Result
}

// askQuestion makes the probe of another protocol.
func (c *client) askQuestion(ctx context.Context) (Result, error) {
	r, err := c.question.Probe(ctx, c.conn)
	r.Reason = clip(r.Reason)
	return r, err
}
