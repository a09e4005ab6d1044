package filter

import (
	"context"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/router"
)

// Served is a call that code in the process serves: the translator, the server of idempotency keys, the guard of
// engines, or a service of the gateway itself. The code may continue the call on another stream with
// localgrpc.Continue. That stream passes the filters after the serving one, and no filter twice.
type Served struct {
	// Read-only fields for the code.
	Call      call.Call
	Caller    tenant.Identity
	RequestID string
	Fleet     *router.Fleet
	Endpoint  *router.Backend // nil means none was picked yet
	Value     any             // value of the filter that serves the call
	// Fields that the code sets.
	Refused atomic.Pointer[call.Refusal] // why the code refused the call
	Outcome atomic.Int32                 // telemetry.Outcome of the tool; 0 means that of the backend's response

	// Continued is true once the code has continued the call. The driver sets it.
	Continued atomic.Bool
	progress  atomic.Uint32 // a call.Progress
}

// Progress returns what the code may have done for the call, other than continuing it: NotSent by default; Answered if
// it may carry out the call in other ways, or on behalf of another call; Sent once it has started to.
func (v *Served) Progress() call.Progress { return call.Progress(v.progress.Load()) }

// SetProgress sets what Progress returns.
func (v *Served) SetProgress(p call.Progress) { v.progress.Store(uint32(p)) }

// servedKey is the context key of a Served.
type servedKey struct{}

// ServedOf returns the served call of ctx, for the code that serves it; nil means none.
func ServedOf(ctx context.Context) *Served {
	v, _ := ctx.Value(servedKey{}).(*Served)
	return v
}

// ServeBy makes a server serve the call. Its context has the call and its caller, see ServedOf and tenant.FromContext.
func (c *Call) ServeBy(server *localgrpc.Server, value any) Step {
	v := &Served{
		Call: c.Info, RequestID: c.RequestID, Fleet: c.Fleet, Endpoint: c.Endpoint, Value: value,
		Caller: tenant.Identity{
			Tenant: c.Info.Tenant, Key: c.Info.Key, Scopes: c.Credential.Scopes,
			User: c.Info.User, Agent: c.Info.Agent, Settings: c.Principal.Settings,
			At: c.Client.At, Person: c.Credential.Person, Subject: c.Credential.Subject,
			Validity: c.Credential.Validity, Operator: c.Credential.Operator,
		},
	}
	c.answer.Served = v
	c.answer.Server = server.With(func(ctx context.Context) context.Context {
		return tenant.NewContext(context.WithValue(ctx, servedKey{}, v), v.Caller)
	})
	return Stop
}

// Queue lets served calls wait for their turn, fairly by tenant. *fairqueue.Queue implements it.
type Queue interface {
	// Wait waits until a call may continue, or ctx ends. from is the client's address; empty means unknown. The error
	// is that of ctx, or says that too many calls of the tenant are waiting.
	Wait(ctx context.Context, tenant, from string) error
}
