package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/router"
)

// PermitStore are the permits of limited fleets' backends. It is a router.PermitStore.
type PermitStore struct {
	client
	replica string
	ttl     time.Duration
	turn    time.Duration
}

const (
	// permitTTL is the lifetime of a replica's permits after its last report.
	permitTTL = 5 * time.Second
	// permitTurn is the time for which a waiting replica keeps its position after its last report.
	permitTurn = 500 * time.Millisecond
)

// Permits returns the permits for one replica, with its unique name.
func (s *Store) Permits(replica string) *PermitStore {
	return &PermitStore{s.client(Permits), replica, permitTTL, permitTurn}
}

// Exchange implements router.PermitStore. The demands are sent together, as one script each: their keys are on
// different nodes of a Cluster.
func (p *PermitStore) Exchange(ctx context.Context, capability string, wants []router.Demand) ([]router.Grant, error) {
	sent := make([]*redis.Cmd, len(wants))
	err := p.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range wants {
				sent[i] = permitScript.lua.EvalSha(ctx, pipe, p.keysOf(capability, &wants[i]),
					p.args(capability, &wants[i])...)
			}
			return nil
		})
		return err
	})
	if failed(err) {
		return nil, err
	}
	grants := make([]router.Grant, len(wants))
	for i := range wants {
		if redis.HasErrorPrefix(sent[i].Err(), "NOSCRIPT") {
			sent[i] = p.run(ctx, permitScript, p.keysOf(capability, &wants[i]), p.args(capability, &wants[i])...)
		}
		if grants[i], err = p.grant(sent[i], p.keysOf(capability, &wants[i])[0]); err != nil {
			return nil, err
		}
	}
	return grants, nil
}

func (p *PermitStore) keysOf(capability string, w *router.Demand) []string {
	return p.keys([]string{capability, w.Addr}, "{slots:CAP:ADDR}")
}

func (p *PermitStore) args(capability string, w *router.Demand) []any {
	return []any{
		p.replica, w.Seq, w.Limit, w.Used, w.Retain, w.Need, w.Spare, p.ttl.Milliseconds(), p.turn.Milliseconds(),
		p.channel("slots"), p.replica + " " + capability,
	}
}

// errOvertaken rejects an exchange that arrived after a later one.
var errOvertaken = errors.New("a later exchange has overtaken this one")

func (p *PermitStore) grant(answer *redis.Cmd, key string) (router.Grant, error) {
	r := replyOf(answer)
	g := router.Grant{Held: int(r.int()), Waiting: int(r.int()), Replicas: int(r.int())}
	if bad := r.int(); g.Held >= 0 {
		for range bad {
			p.malformed(key)
		}
		return g, r.end()
	}
	return router.Grant{}, errOvertaken
}

// Unavailable implements router.PermitStore.
func (p *PermitStore) Unavailable() bool { return p.store.Unavailable() }

// Listen implements router.PermitStore.
func (p *PermitStore) Listen(ctx context.Context, changed func(capability string)) {
	p.subscribe(ctx, p.channel("slots"), func(message string) {
		if from, capability, ok := strings.Cut(message, " "); ok && from != p.replica {
			changed(capability)
		}
	}, func() {})
}

var permitScript = newScript("permits_exchange")
