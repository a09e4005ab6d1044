package redisstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/capgate/capgate/internal/lib/redisurl"
)

// Store is a Redis, or the one inside this process.
type Store struct {
	cfg     Config
	redis   redis.UniversalClient
	server  *embedded // that is inside this process; else nil
	owner   bool      // of server
	counts  counts
	breaker *breaker

	replication replication
	seals       seals

	stop    context.CancelFunc
	running sync.WaitGroup
}

// Open fails only for a Config that can never work: a Redis that is not there may come.
// It waits for a first answer, at most Config.Timeout.
func Open(cfg Config) (*Store, error) { return open(cfg, nil) }

// open uses a server inside this process that another Store owns, if there is one.
func open(cfg Config, server *embedded) (*Store, error) {
	cfg.setDefaults()
	target, err := redisurl.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("redis %w", err)
	}
	if cfg.Password != "" {
		target.Password = cfg.Password
	}
	logging.Disable() // what matters of it is in the errors, and told once
	s := &Store{cfg: cfg, server: server, seals: seals{keys: cfg.StoreKeys, unsigned: cfg.AcceptUnsigned}}
	options := universal(&cfg, &target)
	if target.Kind == redisurl.Embedded {
		if s.owner = server == nil; s.owner {
			s.server = newEmbedded()
		}
		s.server.reach(options)
	}
	s.redis = redis.NewUniversalClient(options)
	s.breaker = newBreaker(cfg.Log, s.ping)
	s.redis.AddHook(hook{s})
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if err := s.ping(ctx); err != nil {
		s.breaker.trip(s.breaker.epoch(), err)
	}
	s.running.Go(func() { s.breaker.run(ctx) })
	return s, nil
}

// Close ends everything. Commands fail from then on; subscriptions must have ended.
func (s *Store) Close() {
	s.stop()
	_ = s.redis.Close() // says only that it was closed before
	s.running.Wait()
	if s.owner {
		s.server.Close()
	}
}

// Away says whether Redis is known not to answer.
func (s *Store) Away() bool {
	away, _ := s.breaker.state()
	return away
}

// OnReturn has f called whenever Redis has come back, perhaps empty. f runs on the one
// goroutine that watches Redis and must not block.
func (s *Store) OnReturn(f func()) { s.breaker.onReturn(f) }

// ping asks Redis whether it can serve, every master of a Cluster.
func (s *Store) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(withPurpose(ctx, Watch), s.cfg.Timeout)
	defer cancel()
	var err error
	if cluster, ok := s.redis.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			s.counts.commands[Watch].Add(1) // the hook is not on nodes
			return node.Ping(ctx).Err()
		})
	} else {
		err = s.redis.Ping(ctx).Err()
	}
	if err == nil {
		s.countReplicas(ctx)
	}
	return err
}
