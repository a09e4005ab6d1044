package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnreplicated is the error of a write that the master has executed, but that fewer replicas than
// Config.WaitReplicas have: a failover may undo it.
var ErrUnreplicated = errors.New("too few replicas of redis confirmed the write in time; see redis.wait_replicas")

// runReplicated is run for writes that must not be undone, such as the redemption of an approval. With
// Config.WaitReplicas it waits, on the same connection, until enough replicas have the write. It waits only for an
// answer that is granted; then the script must have written something, as Redis waits for the writes of the
// connection.
func (c client) runReplicated(
	ctx context.Context, granted func(*reply) bool, s script, keys []string, args ...any,
) (r *reply) {
	cfg := &c.store.cfg
	if cfg.WaitReplicas == 0 {
		return c.read(ctx, s, keys, args...)
	}
	ctx, cancel := withPurpose(ctx, c.purpose, cfg.Timeout+cfg.WaitTimeout)
	defer cancel()
	err := c.onMaster(ctx, keys[0], func(conn *redis.Conn) error {
		r = replyOf(s.lua.Run(ctx, conn, keys, args...))
		if seen := *r; *r.err != nil || !granted(&seen) {
			return *r.err
		}
		copies, err := conn.Wait(ctx, cfg.WaitReplicas, cfg.WaitTimeout).Result()
		if err != nil || copies < int64(cfg.WaitReplicas) {
			c.store.counts.unreplicated.Add(1)
			return errors.Join(ErrUnreplicated, err)
		}
		return nil
	})
	if err != nil {
		return &reply{err: &err}
	}
	return r
}

// onMaster calls f with one connection to the server that has a key.
func (c client) onMaster(ctx context.Context, key string, f func(*redis.Conn) error) error {
	lend := func(node interface{ Conn() *redis.Conn }) error {
		conn := node.Conn()
		defer func() { _ = conn.Close() }() // it returns to its pool
		return f(conn)
	}
	cluster, ok := c.store.redis.(*redis.ClusterClient)
	if !ok {
		node, _ := c.store.redis.(*redis.Client)
		return lend(node)
	}
	return hook{c.store}.process(ctx, 2, func() error { // it does not see the commands of a node
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return err
		}
		err = lend(node)
		if redis.HasErrorPrefix(err, "MOVED") {
			cluster.ReloadState(ctx)
		}
		return err
	})
}

// replicasMaxAge is the age after which the number of replicas is queried again.
const replicasMaxAge = 15 * time.Second

// replication is Redis' report of its replicas, and its time.
type replication struct {
	mu       sync.Mutex
	replicas int  // the most of any master
	refused  bool // this user lacks the permission
	asked    time.Time
}

// Replicas returns the number of Redis' replicas; on a Cluster, those of the master with the most. It is 0 if the
// user of Redis may not query it.
func (s *Store) Replicas() int {
	s.replication.mu.Lock()
	defer s.replication.mu.Unlock()
	return s.replication.replicas
}

// Replicated reports whether writes that must not be undone wait for a replica, or need not.
func (s *Store) Replicated() bool { return s.cfg.WaitReplicas > 0 || s.Replicas() == 0 }

// countReplicas periodically queries the masters for their replicas.
func (s *Store) countReplicas(ctx context.Context) {
	r := &s.replication
	r.mu.Lock()
	due := s.server == nil && !r.refused && time.Since(r.asked) >= replicasMaxAge
	if due {
		r.asked = time.Now()
	}
	r.mu.Unlock()
	if !due {
		return
	}
	most, refused := 0, false
	var mu sync.Mutex // masters are queried concurrently
	ask := func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "replication").Result()
		mu.Lock()
		defer mu.Unlock()
		refused = refused || redis.HasErrorPrefix(err, "NOPERM")
		most = max(most, replicasIn(info))
		return err
	}
	var err error
	switch r := s.redis.(type) {
	case *redis.ClusterClient:
		err = r.ForEachMaster(ctx, ask)
	case *redis.Client:
		err = ask(ctx, r)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused = refused; err != nil {
		return
	}
	if r.replicas == 0 && most > 0 && s.cfg.WaitReplicas == 0 {
		s.cfg.Log.Warn("redis has replicas and wait_replicas is not set: after a failover an approval may be used "+
			"twice", "replicas", most)
	}
	r.replicas = most
}

// replicasIn parses the output of INFO replication.
func replicasIn(info string) int {
	for line := range strings.SplitSeq(info, "\r\n") {
		if text, ok := strings.CutPrefix(line, "connected_slaves:"); ok {
			n, _ := strconv.Atoi(text)
			return n
		}
	}
	return 0
}
