package localgrpc

import (
	"context"

	"github.com/capgate/capgate/gateway/relay"
)

// handleKey is the key of a context's relay.Handle.
type handleKey struct{}

// Continue makes a Conn of the calls that a Server serves: each call by it continues the one that its context is of, as
// relay.ServerStream.Continue does. Answers have at most maxMessage bytes, where a call option says nothing else.
func Continue(maxMessage int) *Conn { return &Conn{continues: true, MaxMessage: maxMessage} }

// Detach runs f on a goroutine of its own, which may outlive the call that ctx is of, and so may the calls by Continue
// of f's context. That has the values of ctx, and ends with the relay. The error is relay.ErrHandleDead: the call is
// over, and f does not run.
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
	values context.Context //nolint:containedctx // for its values alone
}

// Value implements context.Context.
func (d detached) Value(key any) any {
	if v := d.values.Value(key); v != nil {
		return v
	}
	return d.Context.Value(key)
}
