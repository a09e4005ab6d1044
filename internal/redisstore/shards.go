package redisstore

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// shards are the masters of a Cluster. Each has a breaker of its own: while one is lost, the keys of the others stay
// available. The breaker of the Store opens when no master answers.
type shards struct {
	store   *Store
	cluster *redis.ClusterClient

	mu       sync.Mutex
	breakers map[string]*breaker // by address
	alive    []*redis.Client     // the masters that answered the last probe
}

// newShards adds a hook to each node that a client connects to. The client must be new.
func newShards(s *Store, cluster *redis.ClusterClient) *shards {
	all := &shards{store: s, cluster: cluster, breakers: map[string]*breaker{}}
	cluster.OnNewNode(func(node *redis.Client) { node.AddHook(shardHook{all, node.Options().Addr}) })
	return all
}

// at returns the breaker of a node.
func (a *shards) at(addr string) *breaker {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.breakers[addr]
	if b == nil {
		cfg := a.store.cfg
		cfg.Log = cfg.Log.With("shard", addr)
		b = newBreaker(&cfg, nil)
		b.lost, b.found = "a redis shard does not answer; its keys are unavailable", "a redis shard is back"
		b.onReconnect(func() { a.store.breaker.announce() })
		a.breakers[addr] = b
	}
	return b
}

// ping probes all masters. It fails if none answers.
func (a *shards) ping(ctx context.Context) error {
	s := a.store
	var mu sync.Mutex
	var alive []*redis.Client
	masters := map[string]bool{}
	// A node that does not answer may be the first one that is asked for the map of slots.
	within, cancel := withPurpose(ctx, Watch, s.cfg.Dial+s.cfg.Timeout)
	defer cancel()
	err := a.cluster.ForEachMaster(within, func(_ context.Context, node *redis.Client) error {
		s.counts.commands[Watch].Add(1) // the hook of the Store does not see it
		ctx, cancel := withPurpose(ctx, Watch, s.cfg.Timeout)
		defer cancel()
		addr := node.Options().Addr
		b := a.at(addr)
		epoch, stalled := b.epoch(), s.cfg.Stalled()
		err := node.Ping(ctx).Err()
		if s.delayed(err, stalled) {
			err = &delayedError{err}
		}
		if b.judge(ctx, epoch, err); err == nil && b.open() {
			b.comeBack()
		}
		mu.Lock()
		defer mu.Unlock()
		if masters[addr] = true; err == nil {
			alive = append(alive, node)
		}
		return err
	})
	if len(alive) == 0 {
		return err
	}
	for _, b := range a.replace(alive, masters) {
		b.comeBack() // another node has its keys
	}
	return nil
}

// replace sets the masters, and returns the open breakers of former ones.
func (a *shards) replace(alive []*redis.Client, masters map[string]bool) (open []*breaker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alive = alive
	for addr, b := range a.breakers {
		if masters[addr] {
			continue
		}
		if delete(a.breakers, addr); b.open() {
			open = append(open, b)
		}
	}
	return open
}

// unavailable returns a breaker that is open, or nil.
func (a *shards) unavailable() *breaker {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.breakers {
		if b.open() {
			return b
		}
	}
	return nil
}

// forChannel returns a master for a channel's messages, which reach all nodes: that of the channel's slot, or another
// one while that is lost.
func (a *shards) forChannel(ctx context.Context, channel string) (*redis.Client, error) {
	node, err := a.cluster.MasterForKey(ctx, channel)
	if err == nil && !a.at(node.Options().Addr).open() {
		return node, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.alive) > 0 {
		return a.alive[0], nil
	}
	return node, err
}

// shardHook sees every command to one node of a Cluster, and fails it while the node's breaker is open.
type shardHook struct {
	shards *shards
	addr   string
}

// DialHook implements redis.Hook.
func (h shardHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h shardHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		// The map of slots comes from any node.
		slots := cmd.Name() == "cluster"
		if (slots || boundOf(ctx).purpose != Watch) && h.shards.at(h.addr).open() {
			cmd.SetErr(ErrUnavailable)
			return ErrUnavailable
		}
		if slots {
			return next(ctx, cmd)
		}
		return h.shards.store.send(ctx, h.shards.at(h.addr), func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h shardHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b := h.shards.at(h.addr)
		if boundOf(ctx).purpose != Watch && b.open() {
			for _, cmd := range cmds {
				cmd.SetErr(ErrUnavailable)
			}
			return ErrUnavailable
		}
		return h.shards.store.send(ctx, b, func() error { return next(ctx, cmds) })
	}
}
