package upstream

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/assertion"
)

// callerKey is the context key of the *assertion.Caller of a call.
type callerKey struct{}

// WithCaller returns a context whose requests have an assertion of the caller of a call; ctx is that of the call in the
// process. A call that was routed before its fleet wanted assertions has none.
func WithCaller(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	var caller *assertion.Caller
	if all := md.Get(filter.CallerHeader); len(all) > 0 {
		var err error
		if caller, err = assertion.Decode(all[0]); err != nil {
			return nil, err
		}
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

// WithoutCaller returns a context whose requests are those of the gateway itself.
func WithoutCaller(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, &assertion.Caller{Gateway: true})
}

// Assert returns the assertion for a request to a backend; "": it has none. The request is that of the caller in ctx,
// and without one that of the gateway itself.
func (o *Options) Assert(ctx context.Context, f *Fleet, addr string) (string, error) {
	audience := f.Assertion.Of(f.Capability, addr)
	if audience == "" {
		return "", nil
	}
	caller, of := ctx.Value(callerKey{}).(*assertion.Caller)
	switch {
	case !of:
		caller = &assertion.Caller{Gateway: true}
	case caller == nil:
		return "", nil
	}
	return o.Sign(audience, caller)
}
