package localgrpc

import (
	"context"

	"github.com/capgate/capgate/gateway/relay"
)

// handleKey is the context key of a relay.Handle.
type handleKey struct{}

// Continue returns a Conn for calls that a Server serves: each of its calls continues the call of its context, like
// relay.ServerStream.Continue. maxMessage is the default maximum size of response messages, in bytes.
func Continue(maxMessage int) *Conn { return &Conn{continues: true, MaxMessage: maxMessage} }

// Detach runs f on a separate goroutine, which may outlive the call of ctx, as may the calls by Continue with f's
// context. That context has the values of ctx, and ends with the relay. The error relay.ErrHandleDead means that the
// call has ended, and f does not run.
func Detach(ctx context.Context, f func(context.Context)) error {
	h, served := ctx.Value(handleKey{}).(relay.Handle)
	if !served {
		return relay.ErrHandleDead
	}
	return h.Detach(func(alive context.Context) { f(detached{alive, ctx}) })
}

// detached is a context with the values of another one.
type detached struct {
	context.Context
	values context.Context //nolint:containedctx // for its values only
}

// Value implements context.Context.
func (d detached) Value(key any) any {
	if v := d.values.Value(key); v != nil {
		return v
	}
	return d.Context.Value(key)
}
