package forward

import (
	"context"
	"strings"
	"sync"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/assertion"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
)

// Signer signs assertions. *assertion.Signer implements it.
type Signer interface {
	// Ready reports whether Sign has a key.
	Ready() bool
	Sign(audience string, caller *assertion.Caller) (string, error)
}

// Queue lets calls wait for their signatures, by tenant. *fairqueue.Queue implements it.
type Queue interface {
	// WaitAgain waits until an admitted call of the tenant may continue, or ctx ends.
	WaitAgain(ctx context.Context, tenant string) error
}

// Assertions makes the assertions of calls. A signature takes several times longer than the rest of a call. It is made
// on a goroutine of its own, so that no other call of the shard waits for it.
type Assertions struct {
	signer  Signer
	queue   Queue
	memory  *fairshare.Pool
	running sync.WaitGroup
	closing context.Context
	stop    context.CancelFunc
}

// NewAssertions returns Assertions, which the caller must close. If s is nil, calls that need an assertion are
// rejected. Calls that wait are charged to memory.
func NewAssertions(s Signer, q Queue, memory *fairshare.Pool) *Assertions {
	a := &Assertions{signer: s, queue: q, memory: memory}
	a.closing, a.stop = context.WithCancel(context.Background())
	return a
}

// Close waits for the signatures in progress. The caller must not use a after it.
func (a *Assertions) Close() {
	a.stop()
	a.running.Wait()
}

// token is an assertion that is being signed.
type token struct {
	cancel context.CancelFunc
	text   string // empty until it is signed, and if it cannot be
}

// endToken cancels the signature that the call waits for, if any, and returns it.
func endToken(c *filter.Call) *token {
	t, ok := c.Waits.(*token)
	if !ok {
		return nil
	}
	t.cancel()
	c.Waits = nil
	return t
}

// assert adds the assertion of the caller to the request, if the fleet requires assertions. Code in the process that
// stands for a backend receives the caller, and signs each of its requests.
func (f Filter) assert(c *filter.Call) filter.Step {
	if t := endToken(c); t != nil {
		if t.text == "" {
			return c.Reject(unsigned)
		}
		c.Stream.SetHeader(assertion.Header, t.text)
		return filter.Continue
	}
	audience := c.Fleet.Audience(c.Endpoint.Addr)
	if audience == "" {
		return filter.Continue
	}
	if a := f.assertions; a.signer == nil || !a.signer.Ready() {
		return c.Reject(unsigned)
	}
	caller := callerOf(c)
	if UpstreamOf(c.Endpoint).Local() {
		c.Stream.SetHeader(filter.CallerHeader, caller.Encode())
		return filter.Continue
	}
	return f.assertions.sign(c, audience, caller)
}

// sign makes the call wait for its assertion. The strings of a call are reused when it ends, so the caller is copied.
func (a *Assertions) sign(c *filter.Call, audience string, caller *assertion.Caller) filter.Step {
	held := filter.NewHold(c, a.memory, 0)
	if held == nil {
		return c.Reject(c.OutOfMemory())
	}
	ctx, cancel := context.WithCancel(a.closing)
	t := &token{cancel: cancel}
	own, owner, p := caller.Clone(), strings.Clone(c.Info.Tenant), c.Park(tracing.ForAssertion)
	c.Waits = t
	a.running.Go(func() {
		text := ""
		recovery.Round("assertion", func() {
			if a.queue.WaitAgain(ctx, owner) == nil {
				text, _ = a.signer.Sign(audience, own) // without a text, the call is rejected
			}
		})
		held.Release()
		p.Resume(func() { t.text = text })
	})
	return filter.Wait
}

// callerOf returns the caller of a call.
func callerOf(c *filter.Call) *assertion.Caller {
	if c.Own {
		return &assertion.Caller{Gateway: true}
	}
	caller := &assertion.Caller{Tenant: c.Info.Tenant, UID: c.Principal.UID(), User: c.Info.User, Agent: c.Info.Agent,
		RequestID: c.RequestID}
	if c.Credential.Operator {
		caller.Operator = strings.TrimPrefix(c.Info.Key, tenant.OperatorKey)
		return caller
	}
	caller.Credential = c.Info.Key
	at := c.Client.At
	caller.Verified = c.Info.Key != "" || c.Credential.Person != nil || at != nil && at.User != ""
	return caller
}

// unsigned rejects a call whose backend would receive no assertion.
var unsigned = &call.Refusal{Kind: call.Unavailable, Reason: "ASSERTION_UNAVAILABLE", RetryAfter: filter.RetryLater,
	Message: "the gateway cannot sign an assertion of the caller: it has not read its key yet; retry the call"}
