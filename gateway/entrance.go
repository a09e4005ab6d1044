package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/problems"
	"github.com/capgate/capgate/gateway/turnstile"
	"github.com/capgate/capgate/internal/tenant"
)

// waitingRequests is how many requests of one tenant may wait to begin.
const waitingRequests = 1024

// entrance has requests of the front doors pass a turnstile.
func (h *handler) entrance(t *turnstile.Turnstile, doors http.Handler) http.Handler {
	full := problems.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(refusedHeavy.RetryAfter.Seconds())))
		problems.Write(w, r, problems.Own(http.StatusTooManyRequests, codes.ResourceExhausted, refusedHeavy.Reason, refusedHeavy.Message))
	}))
	return t.Handler(h.guess, full, doors)
}

// guess is whose a request is, as far as that can be told at once: those of whom it cannot share their turns. What
// it may do is decided later.
func (h *handler) guess(r *http.Request) string {
	if !h.callers.credentials {
		return ""
	}
	claim := tenant.Claim{Credential: tenant.Bearer(r.Header.Get(authorizationHeader))}
	if claim.Credential == "" {
		claim.Credential = r.Header.Get(apiKeyHeader)
	}
	if claim.Credential == "" {
		claim.Peer = parseOrigin(r.Header.Get(originHeader)).peer
	}
	if who, known, refusal := h.callers.Identify(claim); known && refusal == nil {
		return who.Tenant
	}
	return ""
}

// passUnary has calls that are to be translated pass the turnstile. What else is asked of the gateway itself does not:
// by JSON it has passed.
func (g *Gateway) passUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.passes(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// passStream does so with streams, when their first message is there.
func (g *Gateway) passStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &passing{ServerStream: s, passes: g.passes})
}

type passing struct {
	grpc.ServerStream
	passes func(context.Context) error // nil: it has
}

func (p *passing) RecvMsg(m any) error {
	err := p.ServerStream.RecvMsg(m)
	if pass := p.passes; err == nil && pass != nil {
		p.passes = nil
		err = pass(p.Context())
	}
	return err
}

// passes waits for the turn of the call that ctx is of, if that is one that crosses.
func (g *Gateway) passes(ctx context.Context) error {
	x, crosses := g.crossings.lookIn(ctx)
	if !crosses {
		return nil
	}
	err := g.turnstile.Pass(ctx, x.call.Tenant)
	if errors.Is(err, turnstile.ErrFull) {
		return g.crossings.refuse(ctx, refusedHeavy)
	}
	return err
}
