package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
)

// IdempotencyStore holds the idempotency keys of all tenants. It is an idempotency.Store.
//
//	{TENANT:idempotency}:record:SUM  hash     idempotency.ttl  state; print: keyed hash of the request; token of the
//	                                                           claim; until: its end, ms; answer, or the call of a
//	                                                           task over MCP, encrypted
//	{TENANT:idempotency}:index       sorted   the longest ttl  digests of the tenant's keys by their end, ms
//	idempotency                      channel                   digest of a key whose call has ended
type IdempotencyStore struct{ client }

// Idempotency returns the store of idempotency keys.
func (s *Store) Idempotency() *IdempotencyStore {
	return &IdempotencyStore{s.client(Idempotency)}
}

var errIdempotency = errors.New("a script of idempotency keys returned an unexpected answer")

// luaIdempotency begins all scripts of idempotency keys. KEYS: record, index. ARGV: id, token. Times are in ms.
const luaIdempotency = `
local record, index = KEYS[1], KEYS[2]
local id, token = ARGV[1], ARGV[2]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function text(n) return string.format('%.0f', n) end
local function keep(ttl)
  redis.call('PEXPIRE', record, text(ttl))
  redis.call('ZADD', index, text(now + ttl), id)
  if redis.call('PTTL', index) < ttl then redis.call('PEXPIRE', index, text(ttl)) end
end
`

// claimKeyScript claims a key, or returns its claim. ARGV: fingerprint, lease, TTL, maximum.
var claimKeyScript = newScript(luaIdempotency + `
local print, lease, ttl, most = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local r = redis.call('HMGET', record, 'state', 'print', 'token', 'until', 'answer')
if r[1] == 'running' then
  local left = (tonumber(r[4]) or 0) - now
  if r[3] == token then
    redis.call('HSET', record, 'token', token) -- a write, for replicas to be waited for
    return {'mine', r[2] or '', '', 0}
  end
  if left > 0 then return {'running', r[2] or '', '', left} end
  return {'unknown', r[2] or '', '', 0}
end
if r[1] then return {r[1], r[2] or '', r[5] or '', 0} end
if most == 0 then return {'none', '', '', 0} end
redis.call('ZREMRANGEBYSCORE', index, '-inf', text(now))
if redis.call('ZCARD', index) >= most then return {'full', '', '', 0} end
redis.call('HSET', record, 'state', 'running', 'print', print, 'token', token, 'until', text(now + lease))
keep(math.max(ttl, lease))
return {'mine', print, '', 0}
`)

// renewKeyScript renews a claim. ARGV: lease, TTL.
var renewKeyScript = newScript(luaIdempotency + `
local lease, ttl = tonumber(ARGV[3]), tonumber(ARGV[4])
local r = redis.call('HMGET', record, 'state', 'token')
if r[1] ~= 'running' or r[2] ~= token then return 0 end
redis.call('HSET', record, 'until', text(now + lease))
keep(math.max(ttl, lease))
return 1
`)

// endKeyScript stores the result of a claim. ARGV: state, TTL, response, channel.
var endKeyScript = newScript(luaIdempotency + `
local state, ttl, answer, channel = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
if redis.call('HGET', record, 'token') ~= token then return 0 end
if state == 'none' then
  redis.call('DEL', record)
  redis.call('ZREM', index, id)
else
  redis.call('HDEL', record, 'until')
  redis.call('HSET', record, 'state', state, 'answer', answer)
  keep(ttl)
end
redis.pcall('PUBLISH', channel, id)
return 1
`)

func (i *IdempotencyStore) keys(c *idempotency.Claim) []string {
	t := tag{c.Tenant, "idempotency"}
	return []string{i.key(t, "record", c.ID), i.key(t, "index")}
}

// Begin implements idempotency.Store.
func (i *IdempotencyStore) Begin(ctx context.Context, c *idempotency.Claim) (idempotency.Found, error) {
	granted := func(reply []any) bool { return textAt(reply, 0) == string(idempotency.Mine) }
	reply, err := i.runReplicated(ctx, granted, claimKeyScript, i.keys(c), c.ID, c.Token, c.Fingerprint,
		c.Lease.Milliseconds(), c.TTL.Milliseconds(), c.Limit)
	if errors.Is(err, ErrUnreplicated) {
		// the call does not run; without this the key is in use until its claim ends
		_ = i.End(context.WithoutCancel(ctx), c, idempotency.None, nil)
	}
	if err != nil {
		return idempotency.Found{}, err
	}
	if len(reply) != 4 {
		return idempotency.Found{}, errIdempotency
	}
	left, _ := reply[3].(int64)
	f := idempotency.Found{State: idempotency.State(textAt(reply, 0)), Fingerprint: textAt(reply, 1),
		Sealed: []byte(textAt(reply, 2)), Left: time.Duration(left) * time.Millisecond}
	switch f.State {
	case idempotency.None, idempotency.Mine, idempotency.Full, idempotency.Running, idempotency.Answered,
		idempotency.TooLarge, idempotency.Unknown:
		return f, nil
	}
	i.malformed(i.keys(c)[0])
	return idempotency.Found{}, errIdempotency
}

// Renew implements idempotency.Store.
func (i *IdempotencyStore) Renew(ctx context.Context, c *idempotency.Claim) error {
	return i.run(ctx, renewKeyScript, i.keys(c), c.ID, c.Token, c.Lease.Milliseconds(), c.TTL.Milliseconds()).Err()
}

// End implements idempotency.Store.
func (i *IdempotencyStore) End(ctx context.Context, c *idempotency.Claim, s idempotency.State, sealed []byte) error {
	return i.run(ctx, endKeyScript, i.keys(c), c.ID, c.Token, string(s), c.TTL.Milliseconds(), string(sealed),
		i.channel("idempotency")).Err()
}

// Watch implements idempotency.Store.
func (i *IdempotencyStore) Watch(ctx context.Context, ended func(id string), connected func()) {
	i.subscribe(ctx, i.channel("idempotency"), ended, connected)
}

var _ idempotency.Store = (*IdempotencyStore)(nil)
