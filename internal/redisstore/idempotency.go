package redisstore

import (
	"context"
	"errors"

	"github.com/capgate/capgate/internal/idempotency"
)

// IdempotencyStore holds the idempotency keys of all tenants. It is an idempotency.Store.
type IdempotencyStore struct{ client }

// Idempotency returns the store of idempotency keys.
func (s *Store) Idempotency() *IdempotencyStore {
	return &IdempotencyStore{s.client(Idempotency)}
}

var (
	claimKeyScript = newScript("idempotency_claim")
	renewKeyScript = newScript("idempotency_renew")
	endKeyScript   = newScript("idempotency_end")
)

func (i *IdempotencyStore) keysOf(c *idempotency.Claim) []string {
	return i.keys([]string{c.Tenant, c.ID}, "{TENANT:idempotency}:record:SUM", "{TENANT:idempotency}:index")
}

// Begin implements idempotency.Store.
func (i *IdempotencyStore) Begin(ctx context.Context, c *idempotency.Claim) (idempotency.Found, error) {
	granted := func(r *reply) bool { return r.text() == string(idempotency.Mine) }
	r := i.runReplicated(ctx, granted, claimKeyScript, i.keysOf(c), c.ID, c.Token, c.Fingerprint,
		c.Lease.Milliseconds(), c.TTL.Milliseconds(), c.Limit)
	f := idempotency.Found{State: idempotency.State(r.text()), Fingerprint: r.text(), Sealed: []byte(r.text()),
		Left: r.millis()}
	err := r.end()
	if errors.Is(err, ErrUnreplicated) {
		// the call does not run; without this the key is in use until its claim ends
		_ = i.End(context.WithoutCancel(ctx), c, idempotency.None, nil)
	}
	if err != nil {
		return idempotency.Found{}, err
	}
	switch f.State {
	case idempotency.None, idempotency.Mine, idempotency.Full, idempotency.Running, idempotency.Answered,
		idempotency.TooLarge, idempotency.Unknown:
		return f, nil
	}
	i.malformed(i.keysOf(c)[0])
	return idempotency.Found{}, errReply
}

// Renew implements idempotency.Store.
func (i *IdempotencyStore) Renew(ctx context.Context, c *idempotency.Claim) error {
	return i.run(ctx, renewKeyScript, i.keysOf(c), c.ID, c.Token, c.Lease.Milliseconds(), c.TTL.Milliseconds()).Err()
}

// End implements idempotency.Store.
func (i *IdempotencyStore) End(ctx context.Context, c *idempotency.Claim, s idempotency.State, sealed []byte) error {
	return i.run(ctx, endKeyScript, i.keysOf(c), c.ID, c.Token, string(s), c.TTL.Milliseconds(), string(sealed),
		i.channel("idempotency")).Err()
}

// Watch implements idempotency.Store.
func (i *IdempotencyStore) Watch(ctx context.Context, ended func(id string), connected func()) {
	i.subscribe(ctx, i.channel("idempotency"), ended, connected)
}

var _ idempotency.Store = (*IdempotencyStore)(nil)
