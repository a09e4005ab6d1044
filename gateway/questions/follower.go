package questions

import (
	"context"
	"sync/atomic"
)

// Follower receives the updates of one resource, on behalf of the stream of a client.
type Follower struct {
	// Context ends with the stream, or when its client has unsubscribed.
	Context context.Context //nolint:containedctx // of the stream
	// Over is set before Context ends if the client has unsubscribed. Otherwise its session may go on with another
	// stream.
	Over atomic.Bool
	// Alone means that the client has no session, so that its calls share one with others at a server of an earlier
	// revision.
	Alone bool
	// Updated is called when the resource has changed, or may have. Lost is called once if the subscription ends before
	// Context. Neither may block.
	Updated, Lost func()
}
