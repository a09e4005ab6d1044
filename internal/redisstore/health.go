package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/health"
)

// HealthStore is the health.Membership and the health.Store.
type HealthStore struct {
	client
	epoch string       // for a membership without one
	live  atomic.Int64 // replicas at the last heartbeat
	roll  roll
}

// Health returns the membership and the observations of all replicas.
func (s *Store) Health() *HealthStore {
	return &HealthStore{client: s.client(Health), epoch: rand.Text()}
}

// shardTTL is the lifetime of a shard after its last write. Observations are published more often.
const shardTTL = 24 * time.Hour

var (
	heartbeatScript = newScript("health_heartbeat")
	leaveScript     = newScript("health_leave")
	publishScript   = newScript("health_publish")
	shardScript     = newScript("health_shard")
)

func (b *HealthStore) membershipKeys() []string {
	return b.keys(nil, "{health}:roll", "{health}:digests", "{health}:epoch", "{health}:version")
}

func (b *HealthStore) shardKeys(n int) []string {
	number := strconv.Itoa(n)
	return b.keys([]string{number}, "{health:N}:page", "{health:N}:waiting", "{health:N}:paid")
}

// roll is the list of live replicas as it was read last.
type roll struct {
	epoch, version string
	beats          int             // heartbeats since
	members        []health.Member // not changed; the age is the longest that a live replica has
}

// relist is the number of heartbeats after which a replica reads the list even if its version is the same: an earlier
// gateway does not change the version with its digest.
const relist = 10

// Heartbeat implements health.Membership. It reads the list of replicas only when that has changed, and must not be
// called concurrently.
func (b *HealthStore) Heartbeat(ctx context.Context, heartbeat health.Heartbeat) (health.Members, error) {
	keys := b.membershipKeys()
	r := b.read(ctx, heartbeatScript, keys, heartbeat.Replica, encodeDigest(heartbeat.Digest),
		heartbeat.Dead.Milliseconds(), b.epoch, shardTTL.Milliseconds())
	m := health.Members{Epoch: r.text(), Now: r.int()}
	version := r.text()
	if err := r.end(); err != nil {
		return health.Members{}, err
	}
	if b.roll.beats++; b.roll.epoch == m.Epoch && b.roll.version == version && b.roll.beats < relist {
		m.Members = b.roll.members
		return m, nil
	}
	lines, err := b.roster(ctx, keys, m.Epoch)
	if err != nil {
		return health.Members{}, err
	}
	m.Members = make([]health.Member, 0, len(lines))
	for _, line := range lines {
		member, ok := decodeMember(line, m.Now)
		if !ok {
			b.malformed(keys[1])
			continue
		}
		m.Members = append(m.Members, member)
	}
	b.roll = roll{epoch: m.Epoch, version: version, members: slices.Clone(m.Members)}
	for i := range b.roll.members {
		b.roll.members[i].Age = heartbeat.Dead
	}
	b.live.Store(int64(len(m.Members)))
	return m, nil
}

// roster reads the lines of all live replicas.
func (b *HealthStore) roster(ctx context.Context, keys []string, of string) ([]string, error) {
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
		return nil, err
	case epoch.Val() != of: // the data was lost meanwhile: these are not the members of that epoch
		return nil, errEpochChanged
	}
	return lines.Val(), nil
}

var errEpochChanged = errors.New("health: Redis lost its data during the heartbeat")

// Leave implements health.Membership. It publishes all changes that wait: those that stay may be of an earlier version,
// which does not.
func (b *HealthStore) Leave(ctx context.Context, replica string) error {
	err := b.run(ctx, leaveScript, b.membershipKeys()[:2], replica, b.channel("health"), eventLeft+" "+replica).Err()
	for n := 0; err == nil && n < health.Shards; n++ {
		err = b.run(ctx, shardScript, b.shardKeys(n), b.notice(n, "all")...).Err()
	}
	return err
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
	for n, of := range shards { // not in one script, so that Redis runs others between
		r := b.read(ctx, publishScript, b.shardKeys(n), append(b.notice(n, shardTTL.Milliseconds()), of...)...)
		w := health.Waiting{Shard: n, Version: uint64(r.int()), Wait: r.millis()}
		if err := r.end(); err != nil {
			return nil, err
		}
		if w.Wait > 0 {
			waiting = append(waiting, w)
		}
	}
	return waiting, nil
}

// notice returns the arguments of a script that may publish notices of shard n, and further ones.
func (b *HealthStore) notice(n int, more ...any) []any {
	return append([]any{b.channel("health"), eventShard + " " + strconv.Itoa(n), b.live.Load()}, more...)
}

// Shard implements health.Store.
func (b *HealthStore) Shard(ctx context.Context, n int, whole bool) (health.Shard, error) {
	keys := b.shardKeys(n)
	key := keys[0]
	r := b.read(ctx, shardScript, keys, b.notice(n, "")...)
	p := health.Shard{Now: r.int()}
	is, version := r.text(), r.text()
	p.Wait = r.millis()
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
