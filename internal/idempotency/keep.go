package idempotency

import (
	"context"
	"crypto/rand"

	"github.com/capgate/capgate/internal/call"
)

// On reports whether responses can be stored.
func (k *Service) On() bool { return k.sealer.On() }

// Keep stores data under the key of a request, encrypted as a response and bounded as one, without a call. Data that is
// stored already is not replaced. When Keep returns nil, every replica gets the data from Kept until the TTL is over.
func (k *Service) Keep(ctx context.Context, r *Request, data []byte) *call.Refusal {
	switch {
	case !k.On():
		return refusedOff
	case len(data) > k.opts.MaxAnswer:
		return refusedTooLarge
	}
	claim := k.claimOf(r)
	claim.Limit = k.opts.MaxKeys
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	found, err := k.store.Begin(ctx, &claim)
	switch {
	case err != nil:
		return refusedUnavailable
	case found.State == Answered:
		return nil
	case found.State == Full:
		return refusedFull
	case found.State != Mine:
		return refusedUnavailable
	}
	sealed := k.sealer.Seal(additionalData(claim.ID, claim.Fingerprint), data)
	if k.store.End(ctx, &claim, Answered, sealed) != nil {
		return refusedUnavailable
	}
	return nil
}

// Kept returns the data that Keep has stored under the key of a request; nil if there is none.
func (k *Service) Kept(ctx context.Context, r *Request) ([]byte, *call.Refusal) {
	claim := k.claimOf(r)
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	found, err := k.store.Begin(ctx, &claim)
	if err != nil {
		return nil, refusedUnavailable
	}
	if found.State != Answered {
		return nil, nil
	}
	switch same, known := k.printer.same(found.Fingerprint, r); {
	case !known:
		return nil, refusedUnavailable // it was sealed with a key that this replica lacks
	case !same:
		return nil, refusedReused
	}
	data, err := k.sealer.Open(additionalData(claim.ID, found.Fingerprint), found.Sealed)
	if err != nil {
		return nil, refusedUnavailable
	}
	return data, nil
}

// claimOf returns a claim of a request's key that is only a query.
func (k *Service) claimOf(r *Request) Claim {
	return Claim{
		Tenant: r.Tenant, ID: r.id(), Fingerprint: k.printer.fingerprint(r), Token: rand.Text(),
		Lease: k.opts.Lease, TTL: k.opts.TTL,
	}
}
