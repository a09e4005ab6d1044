package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
)

// maxStrangers is how many calls wait at once until it is known who makes them. An address leaves room for others.
const maxStrangers = 10_000

// lookupPatience is how long a call waits for one answer of the store.
const lookupPatience = 5 * time.Second

// Authenticator says who calls.
type Authenticator interface {
	// Lookup answers from memory, and must not block: it runs on a connection's reader. The
	// claim's strings are parts of the call's headers; User and Agent of the answer may be
	// parts of them, Tenant and Key may not. Where it does not know, Ask does.
	Lookup(tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal)
	// Authenticate may wait, until ctx ends. The claim's strings are its own.
	Authenticate(context.Context, tenant.Credentials) (tenant.Identity, *call.Refusal)
}

// callers finds out who calls: at once where memory knows, else beside the relay.
type callers struct {
	by          Authenticator
	signed      Authenticator   // of those who show the signature of a URL; nil: nobody may
	credentials bool            // callers need them
	waiting     *fairshare.Pool // calls, by the address of their client
	running     sync.WaitGroup
	closing     context.Context
	stop        context.CancelFunc
}

func newCallers(by, signed Authenticator) *callers {
	c := &callers{by: by, signed: signed, credentials: by != nil, waiting: fairshare.New("identities", maxStrangers)}
	if by == nil {
		c.by = tenant.Single{}
	}
	c.closing, c.stop = context.WithCancel(context.Background())
	return c
}

// Lookup answers from memory.
func (c *callers) Lookup(claim tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	switch {
	case claim.Signature == "":
		return c.by.Lookup(claim)
	case c.signed == nil:
		return tenant.Identity{}, true, tenant.RefuseSignature()
	}
	return c.signed.Lookup(claim)
}

// Authenticate may wait.
func (c *callers) Authenticate(ctx context.Context, claim tenant.Credentials) (tenant.Identity, *call.Refusal) {
	if claim.Signature == "" {
		return c.by.Authenticate(ctx, claim)
	}
	return c.signed.Authenticate(ctx, claim)
}

// ask lets a call wait until it is known who makes its claim, or ctx ends.
func (c *callers) ask(ctx context.Context, t *filter.Call, s *authState, claim tenant.Credentials) *call.Refusal {
	place := c.waiting.Of(addressOf(t.Client.Address))
	if !place.Reserve(1) {
		return refusedStrangers
	}
	own := tenant.Credentials{Credential: strings.Clone(claim.Credential), User: strings.Clone(claim.User), Agent: strings.Clone(claim.Agent), Signature: strings.Clone(claim.Signature), Peer: claim.Peer}
	p := t.Park(tracing.ForIdentity)
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, lookupPatience)
		defer cancel()
		who, refusal := tenant.Identity{}, filter.Panicked
		recovery.Round("identity", func() { who, refusal = c.Authenticate(ctx, own) })
		place.Release(1)
		p.Resume(func() { s.found = &found{who, refusal} })
	})
	return nil
}

// wait finds out who at an address makes a claim that memory does not know. It blocks, until ctx ends.
func (c *callers) wait(ctx context.Context, from string, claim tenant.Credentials) (tenant.Identity, *call.Refusal) {
	place := c.waiting.Of(from)
	if !place.Reserve(1) {
		return tenant.Identity{}, refusedStrangers
	}
	defer place.Release(1)
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	return c.Authenticate(ctx, claim)
}

// close waits for those that are at work.
func (c *callers) close() {
	c.stop()
	c.running.Wait()
}

var refusedStrangers = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_OVERLOADED",
	Message: "too many calls wait until it is known who makes them; try again later"}
