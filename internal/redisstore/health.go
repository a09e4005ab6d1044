package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/health"
)

// HealthStore is the health.Membership and the health.Store.
type HealthStore struct {
	client
	epoch string // for a membership without one
}

// Health returns the membership and the observations of all replicas.
func (s *Store) Health() *HealthStore { return &HealthStore{s.client(Health), rand.Text()} }

// shardTTL is the lifetime of a shard after its last write. Observations are published more often.
const shardTTL = 24 * time.Hour

var (
	heartbeatScript = newScript("health_heartbeat")
	leaveScript     = newScript("health_leave")
	publishScript   = newScript("health_publish")
	shardScript     = newScript("health_shard")
)

func (b *HealthStore) membershipKeys() []string {
	return b.keys(nil, "{health}:roll", "{health}:digests", "{health}:epoch")
}

func (b *HealthStore) shardKeys(n int) []string {
	number := strconv.Itoa(n)
	return b.keys([]string{number}, "{health:N}:page", "{health:N}:waiting", "{health:N}:paid")
}

// Heartbeat implements health.Membership.
func (b *HealthStore) Heartbeat(ctx context.Context, heartbeat health.Heartbeat) (health.Members, error) {
	keys := b.membershipKeys()
	r := b.read(ctx, heartbeatScript, keys, heartbeat.Replica, encodeDigest(heartbeat.Digest),
		heartbeat.Dead.Milliseconds(), b.epoch, shardTTL.Milliseconds())
	m := health.Members{Epoch: r.text(), Now: r.int()}
	if err := r.end(); err != nil {
		return health.Members{}, err
	}
	var epoch *redis.StringCmd
	var lines *redis.StringSliceCmd
	err := b.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.TxPipelined(ctx, func(p redis.Pipeliner) error {
			epoch, lines = p.Get(ctx, keys[2]), p.HVals(ctx, keys[1])
			return nil
		})
		return err
	})
	switch {
	case err != nil:
		return health.Members{}, err
	case epoch.Val() != m.Epoch: // the data was lost meanwhile: these are not the members of m.Epoch
		return health.Members{}, errEpochChanged
	}
	m.Members = make([]health.Member, 0, len(lines.Val()))
	for _, line := range lines.Val() {
		member, ok := decodeMember(line, m.Now)
		if !ok {
			b.malformed(keys[1])
			continue
		}
		m.Members = append(m.Members, member)
	}
	return m, nil
}

var errEpochChanged = errors.New("health: Redis lost its data during the heartbeat")

// Leave implements health.Membership.
func (b *HealthStore) Leave(ctx context.Context, replica string) error {
	return b.run(ctx, leaveScript, b.membershipKeys()[:2], replica, b.channel("health"), eventLeft+" "+replica).Err()
}

// Publish implements health.Store.
func (b *HealthStore) Publish(ctx context.Context, reports []health.Report) ([]health.Waiting, error) {
	shards := map[int][]any{}
	for _, r := range reports {
		field, ok := encodeKey(r.Key)
		if !ok {
			continue // decodeKey would reject the key
		}
		n := health.ShardOf(r.Capability)
		observation := ""
		if r.Observation != nil {
			observation = encodeObservation(r.Observation)
		}
		shards[n] = append(shards[n], field, r.Age.Milliseconds(), observation)
	}
	var waiting []health.Waiting
	var keys []string
	first := []any{b.channel("health"), eventShard, shardTTL.Milliseconds()}
	args := first
	for n, of := range shards {
		keys, args = append(keys, b.shardKeys(n)...), append(append(args, n, len(of)/3), of...)
		if b.store.shards == nil && len(keys) < 3*len(shards) {
			continue // one script writes to all shards, except on a Cluster
		}
		r := b.read(ctx, publishScript, keys, args...)
		for r.more() {
			waiting = append(waiting, health.Waiting{Shard: int(r.int()), Version: uint64(r.int()),
				Wait: time.Duration(r.int()) * time.Millisecond})
		}
		if err := r.end(); err != nil {
			return nil, err
		}
		keys, args = nil, first[:len(first):len(first)]
	}
	return waiting, nil
}

// Shard implements health.Store.
func (b *HealthStore) Shard(ctx context.Context, n int, whole bool) (health.Shard, error) {
	keys := b.shardKeys(n)
	key := keys[0]
	r := b.read(ctx, shardScript, keys, b.channel("health"), eventShard+" "+strconv.Itoa(n))
	p := health.Shard{Now: r.int()}
	is, version := r.text(), r.text()
	p.Wait = time.Duration(r.int()) * time.Millisecond
	err := r.end()
	switch {
	case err != nil:
		return health.Shard{}, err
	case is == "none":
	case is != "hash": // another type of key, which the next publish replaces
		b.malformed(key)
	case !whole:
		p.Version = b.version(key, version)
	default:
		err = b.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
			fields, err := r.HGetAll(ctx, key).Result()
			b.decodeShard(&p, key, fields)
			return err
		})
	}
	return p, err
}

// version parses the version of a shard; 0 if it is malformed.
func (b *HealthStore) version(key, s string) uint64 {
	version, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		b.malformed(key)
		return 0
	}
	return version
}

// decodeShard parses the entries of a shard.
func (b *HealthStore) decodeShard(p *health.Shard, key string, fields map[string]string) {
	p.Entries = make([]health.Entry, 0, len(fields))
	for field, value := range fields {
		if field == "v" {
			p.Version = b.version(key, value)
			continue
		}
		k, ok := decodeKey(field)
		if !ok {
			b.malformed(key)
			continue
		}
		observation, ok := decodeObservation(value)
		if !ok {
			b.malformed(key)
			continue
		}
		p.Entries = append(p.Entries, health.Entry{Key: k, Observation: observation})
	}
}

// Watch implements health.Store. It returns when ctx ends.
func (b *HealthStore) Watch(ctx context.Context, tell func(health.Event)) error {
	channel := b.channel("health")
	b.subscribe(ctx, channel, func(message string) {
		n, ok := decodeEvent(message)
		if !ok {
			b.malformed(channel)
			return
		}
		tell(n)
	}, func() { tell(health.Event{Subscribed: true}) })
	return ctx.Err()
}
