package gateway

import (
	"context"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// served is a call that code in the process answers: the translator, the keeper of idempotent answers, the guard of
// engines, or a service of the gateway's own. The code may continue the call on another stream, which passes the
// filters after the one that serves, and no filter twice.
type served struct {
	// What the code may know. It does not change.
	call      call.Call
	caller    tenant.Identity
	requestID string
	fleet     *router.Fleet
	endpoint  *router.Backend // nil: none was picked yet
	keyed     *keyedCall      // nil: the call has no idempotency key

	// What the code says.
	refused atomic.Pointer[call.Refusal] // why it has refused the call
	outcome atomic.Int32                 // telemetry.Outcome of the tool; 0: the answer of the backend says it

	begun atomic.Bool // the code has continued the call

	// The driver's, under the lock of the call's shard.
	outer     *served       // of the stream that this one's stream continues; nil: none
	stream    filter.Stream // that is served
	row       int           // of the filter that serves it
	live      bool          // a stream continues it
	ended     *relay.Result // of the served stream, where that has ended before the one that continues it
	explained string        // why the relay has ended the served stream; "": it has not
	code      uint32        // of the last stream that continued it
	reason    string        // why the gateway has rejected that one; "": it has not
	last      *relay.Result // of the last stream at a backend; nil: there was none
}

// servedKey is the key of a context's served.
type servedKey struct{}

// servedOf is the call that ctx is of, for the code that serves it.
func servedOf(ctx context.Context) *served {
	v, _ := ctx.Value(servedKey{}).(*served)
	return v
}

// serveBy has a server answer a call. Its context has the call and, for the gateway's own services, its caller.
func (t *callState) serveBy(server *localgrpc.Server) filter.Step {
	v := &served{
		call: t.Info, requestID: t.RequestID, fleet: t.Fleet, endpoint: t.Endpoint, keyed: t.keyed,
		caller: tenant.Identity{
			Tenant: t.Info.Tenant, Key: t.Info.Key, Scopes: t.Principal.Scopes,
			User: t.Info.User, Agent: t.Info.Agent, Settings: t.Principal.Settings,
		},
		outer: t.walk.served, stream: t.Stream, row: t.walk.at,
	}
	t.walk.served, t.walk.shared = v, true
	return t.Serve(server.With(func(ctx context.Context) context.Context {
		return tenant.NewContext(context.WithValue(ctx, servedKey{}, v), v.caller)
	}))
}

// refuse is the error by which served code refuses its call, for the reason that the call's record has.
func refuse(ctx context.Context, refusal *call.Refusal) error {
	if v := servedOf(ctx); v != nil {
		v.refused.Store(refusal)
	}
	return GRPCStatus(refusal).Err()
}

// tell adds to a call what the code that served it says of it, when its stream has ended with r.
func (v *served) tell(t *callState, r *relay.Result) {
	switch refusal := v.refused.Load(); {
	case v.explained != "":
		t.Reason = v.explained
	case t.Reason != "":
	case refusal != nil && r.Upstream && r.Code == uint32(codeOf(refusal.Kind)):
		t.Reason, t.Shed = refusal.Reason, refusal.Reason == filter.Overloaded.Reason
	case v.code == r.Code:
		t.Reason = v.reason
	}
	if o := telemetry.Outcome(v.outcome.Load()); o != telemetry.NoOutcome {
		t.Outcome = o
	}
}

// merge is how a call ended whose stream has ended with r, and which had a stream at a backend: code and bytes are those
// that its caller got, and the backend's share of the time is the other's.
func (v *served) merge(r *relay.Result) *relay.Result {
	if v.last == nil {
		return r
	}
	whole, began := *r, v.last.Started.Sub(r.Started)
	whole.Forwarded = v.last.Forwarded + began
	if whole.FirstByte = 0; v.last.FirstByte > 0 {
		whole.FirstByte = v.last.FirstByte + began
	}
	whole.Ended = max(r.Ended, v.last.Ended+began)
	if r.Code == v.last.Code && r.Failure == relay.NoFailure {
		whole.Failure = v.last.Failure
	}
	return &whole
}

// settle takes note of how a stream has ended that continued the call: with r, and served, if it was, as own says. It
// returns how the stream at a backend has ended, where there was one.
func (v *served) settle(t *callState, own *served, r *relay.Result) (heard *relay.Result) {
	v.live, v.code, v.reason, t.Reason = false, r.Code, t.Reason, ""
	switch {
	case own == nil && r.Forwarded > 0:
		last := *r
		v.last = &last
	case own == nil:
		return r
	case own.last == nil:
		return unheard(r)
	default:
		v.last = own.last
	}
	return v.last
}

// serves says whether a stream of the call is served in the process.
func (w *walk) serves(s filter.Stream) bool {
	for v := w.served; v != nil; v = v.outer {
		if v.stream == s {
			return true
		}
	}
	return false
}
