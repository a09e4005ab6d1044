package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/lib/redisurl"
)

// Store is a Redis, or the embedded one.
type Store struct {
	cfg     Config
	target  redisurl.Target
	access  atomic.Pointer[access]
	redis   redis.UniversalClient
	server  *embedded // the embedded one; else nil
	owner   bool      // of server
	counts  counts
	breaker *breaker
	shards  *shards // of a Cluster; else nil

	replication replication
	signer      signer

	life    context.Context //nolint:containedctx // ends with Close
	stop    context.CancelFunc
	undos   chan struct{} // one value for each write that is being undone; full after Close
	undoing *fairshare.Pool
	running sync.WaitGroup
	ended   sync.Once // endUndos
}

// embeddedTimeout is the least timeout of commands of the embedded Redis. It answers at once, unless the processors are
// busy: then it is not unavailable.
const embeddedTimeout = 5 * time.Second

// Open fails only for an invalid Config: an unavailable Redis may come up later. It waits for a first answer, at most
// Config.Timeout.
func Open(cfg Config) (*Store, error) { return open(cfg, nil) }

// open uses an embedded server that another Store owns, if there is one.
func open(cfg Config, server *embedded) (*Store, error) {
	cfg.setDefaults()
	target, err := redisurl.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("redis %w", err)
	}
	if target.Kind == redisurl.Embedded {
		cfg.Timeout, cfg.Dial = max(cfg.Timeout, embeddedTimeout), max(cfg.Dial, embeddedTimeout)
	}
	var own *stalls // nil: not measured
	switch begun := time.Now(); {
	case cfg.Stalled != nil:
	case target.Kind == redisurl.Embedded: // whatever delays it delays the process
		cfg.Stalled = func() time.Duration { return time.Since(begun) }
	case cfg.Dialer != nil:
		cfg.Stalled = func() time.Duration { return 0 }
	default:
		own = newStalls()
		cfg.Stalled = own.total
	}
	logging.Disable() // its errors are returned, and logged once
	s := &Store{cfg: cfg, target: target, server: server, signer: newSigner(&cfg)}
	s.Reload(cfg)
	options := universal(&cfg, &target)
	options.Dialer, options.CredentialsProviderContext = s.dial, s.credentials
	if target.Kind == redisurl.Embedded {
		if s.owner = server == nil; s.owner {
			s.server = newEmbedded()
		}
		s.server.connect(options)
	}
	s.redis = redis.NewUniversalClient(options)
	s.breaker = newBreaker(&cfg, s.ping)
	if cluster, ok := s.redis.(*redis.ClusterClient); ok {
		s.shards = newShards(s, cluster)
	}
	s.redis.AddHook(hook{s})
	ctx, stop := context.WithCancel(context.Background())
	s.life, s.stop, s.undos = ctx, stop, make(chan struct{}, maxUndos)
	s.undoing = fairshare.New("writes to undo", maxUndos)
	if own != nil {
		s.running.Go(func() { own.run(ctx) })
	}
	if err := s.ping(ctx); err != nil {
		s.breaker.trip(s.breaker.epoch(), err)
	}
	s.running.Go(func() { s.breaker.run(ctx) })
	return s, nil
}

// Close closes all connections. Later commands fail; subscriptions must have ended.
func (s *Store) Close() {
	s.stop()
	_ = s.redis.Close() // the only error is "already closed"
	s.running.Wait()
	s.ended.Do(s.endUndos)
	if s.owner {
		s.server.Close()
	}
}

// Unavailable reports whether Redis is known to be unavailable: on a Cluster, all its masters.
func (s *Store) Unavailable() bool {
	unavailable, _ := s.breaker.state()
	return unavailable
}

// OnReconnect registers f for each time that Redis, or a master of a Cluster, is available again, perhaps without its
// data. f runs on the breaker's goroutine and must not block.
func (s *Store) OnReconnect(f func()) { s.breaker.onReconnect(f) }

// ping checks whether Redis can serve: on a Cluster, whether a master can.
func (s *Store) ping(ctx context.Context) error {
	var err error
	stalled := s.cfg.Stalled()
	if s.shards != nil {
		err = s.shards.ping(ctx)
	}
	ctx, cancel := withPurpose(ctx, Watch, s.cfg.Timeout)
	defer cancel()
	if s.shards == nil {
		err = s.redis.Ping(ctx).Err()
	}
	switch {
	case err == nil:
		s.countReplicas(ctx)
	case s.delayed(err, stalled):
		return &delayedError{err}
	}
	return err
}
