package redisstore

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy"
)

func (p *Policies) versionKey() string  { return p.key("{policies}:version") }
func (p *Policies) epochKey() string    { return p.key("{policies}:epoch") }
func (p *Policies) lostKey() string     { return p.key("{policies}:lost") }
func (p *Policies) acceptedKey() string { return p.key("{policies}:accepted") }

var countChangeScript = newScript("policies_count_change")

// MarkLost implements policy.Feed.
func (p *Policies) MarkLost(ctx context.Context, epoch string) error {
	return p.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.Set(ctx, p.lostKey(), epoch, 0).Err()
	})
}

// Revision implements policy.Feed.
func (p *Policies) Revision(ctx context.Context) (now policy.Revision, err error) {
	var values []any
	err = p.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		values, err = r.MGet(ctx, p.versionKey(), p.epochKey(), p.lostKey(), p.acceptedKey()).Result()
		return err
	})
	if err != nil {
		return now, err
	}
	r := valuesOf(values)
	if text := r.text(); text != "" {
		if now.Version, err = strconv.ParseUint(text, 10, 64); err != nil {
			p.malformed(p.versionKey())
			return now, err
		}
	}
	now.Epoch, now.Lost, now.Accepted = r.text(), r.text(), strings.Fields(r.text())
	return now, nil
}

// maxAccepted bounds the epochs whose loss was accepted: replicas that do not run meanwhile remember none.
const maxAccepted = 16

var acceptLossScript = newScript("policies_accept_loss")

// AcceptLoss accepts that rules are lost: those that are stored count from now on. was: a replica had found a loss.
func (p *Policies) AcceptLoss(ctx context.Context) (was bool, err error) {
	n, err := p.run(ctx, acceptLossScript, []string{p.versionKey(), p.epochKey(), p.lostKey(), p.acceptedKey()},
		rand.Text(), maxAccepted).Int()
	return n == 1, err
}
