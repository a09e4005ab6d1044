package filter

import (
	"context"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// Served is a call that code in the process answers: the translator, the server of idempotency keys, the guard of
// engines, or a service of the gateway's own. The code may continue the call on another stream by localgrpc.Continue,
// which passes the filters after the one that serves, and no filter twice.
type Served struct {
	// The code may read these. They do not change.
	Call      call.Call
	Caller    tenant.Identity
	RequestID string
	Fleet     *router.Fleet
	Endpoint  *router.Backend // nil means none was picked yet
	Value     any             // of the filter that serves the call
	// The code sets these.
	Refused atomic.Pointer[call.Refusal] // why the code has refused the call
	Outcome atomic.Int32                 // telemetry.Outcome of the tool; 0 means the answer of the backend says it

	// Continued says that the code has continued the call. The driver sets it.
	Continued atomic.Bool
	progress  atomic.Uint32 // a call.Progress
}

// Progress returns what the code does for the call besides continuing it: nothing by default; Answered if it may have
// the call carried out in other ways, or for another call; Sent once it has begun to.
func (v *Served) Progress() call.Progress { return call.Progress(v.progress.Load()) }

// SetProgress sets what Progress returns.
func (v *Served) SetProgress(p call.Progress) { v.progress.Store(uint32(p)) }

// servedKey is the key of a context's Served.
type servedKey struct{}

// ServedOf returns the call that ctx is of, for the code that serves it; nil means none.
func ServedOf(ctx context.Context) *Served {
	v, _ := ctx.Value(servedKey{}).(*Served)
	return v
}

// ServeBy has a server answer a call. Its context has the call and its caller, see ServedOf and tenant.FromContext.
func (c *Call) ServeBy(server *localgrpc.Server, value any) Step {
	v := &Served{
		Call: c.Info, RequestID: c.RequestID, Fleet: c.Fleet, Endpoint: c.Endpoint, Value: value,
		Caller: tenant.Identity{
			Tenant: c.Info.Tenant, Key: c.Info.Key, Scopes: c.Principal.Scopes,
			User: c.Info.User, Agent: c.Info.Agent, Settings: c.Principal.Settings,
			At: c.Client.At, Person: c.Principal.Person, Subject: c.Principal.Subject, Validity: c.Principal.Validity,
		},
	}
	c.answer.Served = v
	c.answer.Server = server.With(func(ctx context.Context) context.Context {
		return tenant.NewContext(context.WithValue(ctx, servedKey{}, v), v.Caller)
	})
	return Stop
}

// Queue lets the served calls of a tenant wait for their turn, as *fairqueue.Queue does.
type Queue interface {
	// Wait waits until a call may continue, or ctx ends. from is the address of the client; empty means unknown. The
	// error is that of ctx, or too many calls of the tenant wait.
	Wait(ctx context.Context, tenant, from string) error
}
