package redisstore

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/health"
)

// HealthStore is the health.Membership and the health.Store.
//
//	{health}:roll     sorted   24h  live replicas by their last heartbeat; dead ones are removed
//	{health}:digests  hash     24h  replica → its last heartbeat, and the digest of its probes
//	{health}:epoch    string   24h  changes when the membership was lost
//	{health:N}:page   hash     24h  shard N, 0 to 15: observations of backends, and the shard's version; rewritten
//	                                hourly
//	health            channel       changes of shards; replicas that leave
type HealthStore struct {
	client
	epoch string // for a membership without one
}

// Health returns the membership and the observations of all replicas.
func (s *Store) Health() *HealthStore { return &HealthStore{s.client(Health), rand.Text()} }

// shardTTL is the lifetime of a shard after its last write. Observations are published more often.
const shardTTL = 24 * time.Hour

// luaHealthPrelude begins the scripts below: the time in ms, and the deletion of keys of a wrong type.
const luaHealthPrelude = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(n) return string.format('%.0f', n) end
local function must(key, kind)
	local is = redis.call('TYPE', key)
	is = type(is) == 'table' and is.ok or is
	if is ~= kind and is ~= 'none' then redis.call('DEL', key) end
end
`

// heartbeatScript takes members, digests, epoch; replica, digest, ms until death, a new epoch, TTL in ms. Each
// replica runs it once a second and gets a line of every other one. The lines are stored as sent, since a loop
// in Lua would dominate Redis' CPU time.
var heartbeatScript = newScript(luaHealthPrelude + `
must(KEYS[1], 'zset') must(KEYS[2], 'hash') must(KEYS[3], 'string')
redis.call('SET', KEYS[3], ARGV[4], 'NX')
redis.call('ZADD', KEYS[1], whole(now), ARGV[1])
if redis.call('HLEN', KEYS[2]) > redis.call('ZCARD', KEYS[1]) then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[1] .. ' ' .. whole(now) .. ' ' .. ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. whole(now - ARGV[3]))) do
	redis.call('ZREM', KEYS[1], id)
	redis.call('HDEL', KEYS[2], id)
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[5]) end
return {redis.call('GET', KEYS[3]), whole(now), redis.call('HVALS', KEYS[2])}`)

// leaveScript takes members, digests; replica, channel, message.
var leaveScript = newScript(`
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1`)

// publishScript takes a shard; channel, the beginning of the event, TTL in ms, and for each observation its field,
// the age of its state in ms, and the rest, or nothing to delete it.
var publishScript = newScript(luaHealthPrelude + luaNextVersion + `
must(KEYS[1], 'hash')
local previous = tonumber(redis.call('HGET', KEYS[1], 'v') or '')
if not previous then
	redis.call('DEL', KEYS[1])
	previous = 0
end
local version = nextVersion(previous)
local notice = {ARGV[2] .. ' ' .. version .. ' ' .. whole(previous)}
for i = 4, #ARGV, 3 do
	local observation = ''
	if ARGV[i + 2] == '' then
		redis.call('HDEL', KEYS[1], ARGV[i])
	else
		observation = whole(now - ARGV[i + 1]) .. ' ' .. whole(now) .. ' ' .. ARGV[i + 2]
		redis.call('HSET', KEYS[1], ARGV[i], observation)
	end
	notice[#notice + 1] = ARGV[i]
	notice[#notice + 1] = observation
end
redis.call('HSET', KEYS[1], 'v', version)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[1], table.concat(notice, '\n'))
return 1`)

// shardScript takes a shard. Its entries are then read without Lua, which would be several times slower.
var shardScript = newScript(luaHealthPrelude + `
local is = redis.call('TYPE', KEYS[1])
is = type(is) == 'table' and is.ok or is
return {whole(now), is, is == 'hash' and redis.call('HGET', KEYS[1], 'v') or ''}`)

func (b *HealthStore) membershipKeys() []string {
	t := tag{"health"}
	return []string{b.key(t, "roll"), b.key(t, "digests"), b.key(t, "epoch")}
}

func (b *HealthStore) shardKey(n int) string { return b.key(tag{"health", strconv.Itoa(n)}, "page") }

// Heartbeat implements health.Membership.
func (b *HealthStore) Heartbeat(ctx context.Context, heartbeat health.Heartbeat) (health.Members, error) {
	keys := b.membershipKeys()
	reply, err := b.run(ctx, heartbeatScript, keys, heartbeat.Replica, encodeDigest(heartbeat.Digest),
		heartbeat.Dead.Milliseconds(),
		b.epoch, shardTTL.Milliseconds()).Slice()
	if err != nil {
		return health.Members{}, err
	}
	if len(reply) != 3 {
		return health.Members{}, errMalformed
	}
	epoch, ok1 := reply[0].(string)
	now, ok2 := reply[1].(string)
	lines, ok3 := reply[2].([]any)
	m := health.Members{Epoch: epoch, Members: make([]health.Member, 0, len(lines))}
	m.Now, err = strconv.ParseInt(now, 10, 64)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return health.Members{}, errMalformed
	}
	for _, line := range lines {
		text, _ := line.(string)
		member, ok := decodeMember(text, m.Now)
		if !ok {
			b.malformed(keys[1])
			continue
		}
		m.Members = append(m.Members, member)
	}
	return m, nil
}

// Leave implements health.Membership.
func (b *HealthStore) Leave(ctx context.Context, replica string) error {
	return b.run(ctx, leaveScript, b.membershipKeys()[:2], replica, b.channel("health"), eventLeft+" "+replica).Err()
}

// Publish implements health.Store.
func (b *HealthStore) Publish(ctx context.Context, reports []health.Report) error {
	shards := map[int][]any{}
	for _, r := range reports {
		field, ok := encodeKey(r.Key)
		if !ok {
			continue // decodeKey would reject the key
		}
		n := health.ShardOf(r.Capability)
		if shards[n] == nil {
			shards[n] = []any{b.channel("health"), eventShard + " " + strconv.Itoa(n), shardTTL.Milliseconds()}
		}
		observation := ""
		if r.Observation != nil {
			observation = encodeObservation(r.Observation)
		}
		shards[n] = append(shards[n], field, r.Age.Milliseconds(), observation)
	}
	for n, args := range shards {
		if err := b.run(ctx, publishScript, []string{b.shardKey(n)}, args...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Shard implements health.Store.
func (b *HealthStore) Shard(ctx context.Context, n int, whole bool) (health.Shard, error) {
	key := b.shardKey(n)
	reply, err := b.run(ctx, shardScript, []string{key}).StringSlice()
	if err != nil {
		return health.Shard{}, err
	}
	if len(reply) != 3 {
		return health.Shard{}, errMalformed
	}
	p := health.Shard{}
	if p.Now, err = strconv.ParseInt(reply[0], 10, 64); err != nil {
		return health.Shard{}, errMalformed
	}
	switch is := reply[1]; {
	case is == "none":
	case is != "hash": // another type of key, which the next publish replaces
		b.malformed(key)
	case !whole:
		p.Version = b.version(key, reply[2])
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
