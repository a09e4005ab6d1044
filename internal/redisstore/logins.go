package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/gateway/upstream/logins"
)

// Logins holds the logins of fleets at their servers. It is a logins.Store.
type Logins struct{ client }

// Logins returns the store of logins.
func (s *Store) Logins() *Logins { return &Logins{s.client(Identity)} }

var (
	readLoginScript      = newScript("logins_read")
	writeLoginScript     = newScript("logins_write")
	challengeLoginScript = newScript("logins_challenge")
	leaseLoginScript     = newScript("logins_lease")
)

func (l *Logins) loginKeys(fleet string) []string {
	return l.keys([]string{fleet}, "{logins:CAP}:login", "{logins:CAP}:lease")
}

// Read implements logins.Store.
func (l *Logins) Read(ctx context.Context, fleet, bond string) (logins.Stored, error) {
	r := l.read(ctx, readLoginScript, l.loginKeys(fleet)[:1], bond)
	s := logins.Stored{Bond: bond, Version: r.text(), Value: []byte(r.text()), Challenge: []byte(r.text())}
	return s, r.end()
}

// Write implements logins.Store.
func (l *Logins) Write(ctx context.Context, fleet string, s logins.Stored, was, lease string) error {
	written, err := l.run(ctx, writeLoginScript, l.loginKeys(fleet), l.channel("logins"), fleet, s.Bond, s.Version,
		s.Value, s.Challenge, was, lease).Int()
	if err == nil && written == 0 {
		return logins.ErrChanged
	}
	return err
}

// Challenge implements logins.Store.
func (l *Logins) Challenge(ctx context.Context, fleet, bond string, challenge []byte) error {
	return l.run(ctx, challengeLoginScript, l.loginKeys(fleet)[:1], bond, challenge).Err()
}

// Lease implements logins.Store.
func (l *Logins) Lease(ctx context.Context, fleet, version, id string, d time.Duration) (held bool, err error) {
	n, err := l.run(ctx, leaseLoginScript, l.loginKeys(fleet), version, id, d.Milliseconds()).Int()
	if err == nil && n < 0 {
		err = logins.ErrChanged
	}
	return n == 1, err
}

// Delete implements logins.Store.
func (l *Logins) Delete(ctx context.Context, fleet string) (found bool, err error) {
	key := l.loginKeys(fleet)[0]
	var version *redis.StringCmd
	err = l.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			version = pipe.HGet(ctx, key, "version")
			pipe.Del(ctx, key)
			return nil
		})
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	if err == nil {
		err = l.publish(ctx, l.channel("logins"), fleet)
	}
	return err == nil && version.Val() != "", err
}

// Watch implements logins.Store.
func (l *Logins) Watch(ctx context.Context, changed func(fleet string), missed func()) {
	l.subscribe(ctx, l.channel("logins"), changed, missed)
}

var _ logins.Store = (*Logins)(nil)
