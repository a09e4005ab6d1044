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

// ErrUnreplicated is the error of a write that Redis has carried out, but that fewer replicas than
// Config.WaitReplicas have: a failover may undo it.
var ErrUnreplicated = errors.New("redis has not copied the write to enough replicas in time")

// runReplicated is run for writes that must not be undone, such as the use of an approval. Where Config.WaitReplicas
// is set it waits, on the same connection, until so many replicas have the write. The caller relies on an answer that
// is granted; the script has to write something then, as Redis waits for what the connection has written.
func (c client) runReplicated(ctx context.Context, granted func(said []any) bool, s script, keys []string, args ...any) (said []any, err error) {
	cfg := &c.store.cfg
	if cfg.WaitReplicas == 0 {
		return c.run(ctx, s, keys, args...).Slice()
	}
	ctx, cancel := context.WithTimeout(withPurpose(ctx, c.purpose), cfg.Timeout+cfg.WaitTimeout)
	defer cancel()
	err = c.onMaster(ctx, keys[0], func(conn *redis.Conn) error {
		if said, err = s.lua.Run(ctx, conn, keys, args...).Slice(); err != nil || !granted(said) {
			return err
		}
		copies, err := conn.Wait(ctx, cfg.WaitReplicas, cfg.WaitTimeout).Result()
		if err != nil || copies < int64(cfg.WaitReplicas) {
			c.store.counts.unreplicated.Add(1)
			return errors.Join(ErrUnreplicated, err)
		}
		return nil
	})
	return said, err
}

// onMaster lends f one connection to the server that has a key.
func (c client) onMaster(ctx context.Context, key string, f func(*redis.Conn) error) error {
	lend := func(node interface{ Conn() *redis.Conn }) error {
		conn := node.Conn()
		defer func() { _ = conn.Close() }() // it goes back to its pool
		return f(conn)
	}
	cluster, ok := c.store.redis.(*redis.ClusterClient)
	if !ok {
		node, _ := c.store.redis.(*redis.Client)
		return lend(node)
	}
	return hook{c.store}.watch(ctx, 2, func() error { // the hook is not on nodes
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

// lookAgain is how old what is known of Redis' replicas may be.
const lookAgain = 15 * time.Second

// replication is what Redis says of its replicas, and when it was asked.
type replication struct {
	mu       sync.Mutex
	replicas int  // the most that a master has
	refused  bool // this user may not ask
	asked    time.Time
}

// Replicas is how many replicas Redis has, those of the master of a Cluster that has most. It is 0 where the user
// of Redis may not ask.
func (s *Store) Replicas() int {
	s.replication.mu.Lock()
	defer s.replication.mu.Unlock()
	return s.replication.replicas
}

// Replicated says whether the writes that must not be undone wait for a replica, or need not.
func (s *Store) Replicated() bool { return s.cfg.WaitReplicas > 0 || s.Replicas() == 0 }

// countReplicas asks masters for their replicas, now and then.
func (s *Store) countReplicas(ctx context.Context) {
	r := &s.replication
	r.mu.Lock()
	due := s.server == nil && !r.refused && time.Since(r.asked) >= lookAgain
	if due {
		r.asked = time.Now()
	}
	r.mu.Unlock()
	if !due {
		return
	}
	most, refused := 0, false
	var mu sync.Mutex // masters are asked at once
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
		s.cfg.Log.Warn("redis has replicas and wait_replicas is not set: after a failover an approval may be used twice", "replicas", most)
	}
	r.replicas = most
}

// replicasIn reads INFO replication of a master.
func replicasIn(info string) int {
	for line := range strings.SplitSeq(info, "\r\n") {
		if text, ok := strings.CutPrefix(line, "connected_slaves:"); ok {
			n, _ := strconv.Atoi(text)
			return n
		}
	}
	return 0
}
