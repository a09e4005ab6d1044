package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
)

// IdempotencyStore holds the idempotency keys of all tenants. It is an idempotency.Store.
type IdempotencyStore struct{ client }

// Idempotency returns the store of idempotency keys.
func (s *Store) Idempotency() *IdempotencyStore {
	return &IdempotencyStore{s.client(Idempotency)}
}

var errIdempotency = errors.New("a script of idempotency keys returned an unexpected answer")

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
	granted := func(reply []any) bool { return textAt(reply, 0) == string(idempotency.Mine) }
	reply, err := i.runReplicated(ctx, granted, claimKeyScript, i.keysOf(c), c.ID, c.Token, c.Fingerprint,
		c.Lease.Milliseconds(), c.TTL.Milliseconds(), c.Limit)
	if errors.Is(err, ErrUnreplicated) {
		// the call does not run; without this the key is in use until its claim ends
		_ = i.End(context.WithoutCancel(ctx), c, idempotency.None, nil)
	}
	if err != nil {
		return idempotency.Found{}, err
	}
	if len(reply) != 4 {
		return idempotency.Found{}, errIdempotency
	}
	left, _ := reply[3].(int64)
	f := idempotency.Found{State: idempotency.State(textAt(reply, 0)), Fingerprint: textAt(reply, 1),
		Sealed: []byte(textAt(reply, 2)), Left: time.Duration(left) * time.Millisecond}
	switch f.State {
	case idempotency.None, idempotency.Mine, idempotency.Full, idempotency.Running, idempotency.Answered,
		idempotency.TooLarge, idempotency.Unknown:
		return f, nil
	}
	i.malformed(i.keysOf(c)[0])
	return idempotency.Found{}, errIdempotency
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
