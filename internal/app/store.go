package app

import (
	"reflect"

	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/redisstore"
)

// storeFeature opens what replicas share. Whether Redis is there now makes no difference.
func storeFeature() feature {
	return feature{
		build: func(p *App) (err error) {
			c := p.started.Store
			c.Log, c.StoreKeys = p.log, sharedkey.Derive(p.started.Secrets, "records")
			if p.store, err = redisstore.Open(c); err != nil {
				return err
			}
			p.secret = sharedkey.New(p.store.Secret(), nil)
			p.secret.Replace(p.started.Secrets)
			p.parts.Ready.Redis, p.parts.Ready.Warnings = redisState(p.store), p.redisWarnings()
			p.parts.Ready.Unread = p.unread(p.started.Config.Redis.ReadyWithout)
			return p.metrics.Add(p.store)
		},
		apply: func(p *App, c *change) {
			if c.reloaded && reflect.DeepEqual(c.Config.Redis, p.started.Config.Redis) {
				p.store.Reload(c.Store)
			}
			if c.reloaded {
				p.secret.Replace(c.Secrets)
			}
		},
		close: func(p *App) {
			if p.store != nil {
				p.store.Close()
			}
		},
	}
}

// redisWarnings returns what operators should change about a store.
func (p *App) redisWarnings() func() []string {
	s := p.store
	return func() (all []string) {
		if p.rules.decider.Stats().Lost {
			all = append(all, "redis has lost the rules: restore them, or accept the loss with capgate policy "+
				"accept-loss")
		}
		if !s.Replicated() {
			all = append(all, "redis has replicas and redis.wait_replicas is not set: after a failover an "+
				"approval may be used twice")
		}
		if s.AcceptsUnsigned() {
			all = append(all, "redis.accept_unsigned is on: unsigned records are accepted")
		}
		return all
	}
}

// unread returns the state in Redis that this replica has not read since its start: it would reject calls for that.
func (p *App) unread(without bool) func() []string {
	if without {
		return nil
	}
	return func() (all []string) {
		if p.rules.store != nil && !p.rules.decider.HasRead() {
			all = append(all, "rules")
		}
		if p.auth.stored != nil && !p.auth.stored.HasRead() {
			all = append(all, "keys and tenants")
		}
		return all
	}
}

// redisState returns the state of a store for operators: embedded, ok or away.
func redisState(s *redisstore.Store) func() string {
	return func() string {
		switch stats := s.Stats(); {
		case stats.Embedded:
			return "embedded"
		case stats.Unavailable:
			return "away"
		default:
			return "ok"
		}
	}
}
