package authenticate

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/telemetry/tracing"
	"github.com/capgate/capgate/internal/tenant"
)

// maxStrangers is the maximum number of calls that wait for authentication. An address may not use all of it.
const maxStrangers = 10_000

// lookupPatience is the timeout of one lookup in the store.
const lookupPatience = 5 * time.Second

// Authenticator authenticates callers.
type Authenticator interface {
	// Lookup authenticates from memory. It must not block, because it runs on a connection's reader. The strings of
	// the credentials are parts of the call's headers; so may be User and Agent of the result, but not Tenant and Key.
	// If known is false, the caller must use Authenticate.
	Lookup(tenant.Credentials) (identity tenant.Identity, known bool, refusal *call.Refusal)
	// Authenticate may wait until ctx ends. It may keep the strings of the credentials.
	Authenticate(context.Context, tenant.Credentials) (tenant.Identity, *call.Refusal)
}

// Callers authenticates callers: from memory, or beside the relay.
type Callers struct {
	by          Authenticator
	signed      Authenticator   // for the signatures of URLs; nil means they are rejected
	credentials bool            // callers need a credential
	waiting     *fairshare.Pool // waiting calls, by client address
	running     sync.WaitGroup
	closing     context.Context
	stop        context.CancelFunc
}

// NewCallers returns Callers. The caller must close them. If by is nil, every call belongs to tenant.Single. signed
// authenticates by the signature of a URL; if it is nil, signatures are rejected.
func NewCallers(by, signed Authenticator) *Callers {
	c := &Callers{by: by, signed: signed, credentials: by != nil, waiting: fairshare.New("identities", maxStrangers)}
	if by == nil {
		c.by = tenant.Single{}
	}
	c.closing, c.stop = context.WithCancel(context.Background())
	return c
}

// Needed reports whether callers need a credential.
func (c *Callers) Needed() bool { return c.credentials }

// NeedsAt reports whether callers need a credential at a listener; nil means the public port.
func (c *Callers) NeedsAt(at *tenant.Listener) bool { return c.credentials && !at.Anonymous() }

// Lookup authenticates from memory.
func (c *Callers) Lookup(claim tenant.Credentials) (identity tenant.Identity, known bool, refusal *call.Refusal) {
	switch {
	case claim.Signature == "":
		identity, known, refusal = c.by.Lookup(claim)
	case c.signed == nil:
		return tenant.Identity{}, true, tenant.RefuseSignature()
	default:
		identity, known, refusal = c.signed.Lookup(claim)
	}
	if known && claim.At != nil {
		identity, refusal = narrow(identity, claim, refusal)
	}
	return identity, known, refusal
}

// Authenticate may wait until ctx ends.
func (c *Callers) Authenticate(ctx context.Context, claim tenant.Credentials) (tenant.Identity, *call.Refusal) {
	by := c.by
	if claim.Signature != "" {
		by = c.signed
	}
	identity, refusal := by.Authenticate(ctx, claim)
	return narrow(identity, claim, refusal)
}

// narrow applies the settings of the call's listener to an authenticated caller.
func narrow(identity tenant.Identity, claim tenant.Credentials, refusal *call.Refusal) (tenant.Identity,
	*call.Refusal) {
	if claim.At == nil || refusal != nil {
		return identity, refusal
	}
	return claim.At.Narrow(identity, claim)
}

// ask starts the authentication of a call, which waits until the result is there or ctx ends.
func (c *Callers) ask(ctx context.Context, t *filter.Call, s *State, claim tenant.Credentials) *call.Refusal {
	place := c.waiting.Of(clientaddr.NetworkNameOf(t.Client.Address))
	if !place.Reserve(1) {
		return rejectedStrangers
	}
	// The lookup runs on a goroutine of its own, so it must not have the Proof of the connection, which belongs to the
	// shard.
	own := tenant.Credentials{
		Credential: strings.Clone(claim.Credential), Signature: strings.Clone(claim.Signature),
		User: strings.Clone(claim.User), Agent: strings.Clone(claim.Agent), Peer: claim.Peer,
		At: claim.At,
	}
	p := t.Park(tracing.ForIdentity)
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, lookupPatience)
		defer cancel()
		identity, refusal := tenant.Identity{}, filter.Panicked
		recovery.Round("identity", func() { identity, refusal = c.Authenticate(ctx, own) })
		place.Release(1)
		p.Resume(func() { s.found = &found{identity, refusal} })
	})
	return nil
}

// Wait authenticates credentials that are not in memory, for a client at the address from. It blocks until the result
// is there or ctx ends.
func (c *Callers) Wait(ctx context.Context, from string, claim tenant.Credentials) (tenant.Identity, *call.Refusal) {
	place := c.waiting.Of(from)
	if !place.Reserve(1) {
		return tenant.Identity{}, rejectedStrangers
	}
	defer place.Release(1)
	ctx, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	return c.Authenticate(ctx, claim)
}

// Close cancels the lookups of calls, and waits for them.
func (c *Callers) Close() {
	c.stop()
	c.running.Wait()
}

var rejectedStrangers = &call.Refusal{Kind: call.Unavailable, Reason: "IDENTITY_OVERLOADED",
	Message: "too many calls are waiting for authentication; retry later"}
