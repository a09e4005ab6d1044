package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
)

// Registrations are the leases of backends that registered themselves. It is a registry.Leases.
//
//	{registry}:leases     hash     none  "capability addr" → lease, TTL in ms, JSON of one registration
//	{registry}:ends       sorted   none  the same fields by their end, ms
//	{registry}:ended      sorted   none  fields that ended in the last two minutes, by their end, ms
//	{registry}:state      hash     none  epoch and version of leases; ms of their last sweep, and of the last tidying
//	                                     of manifests
//	{registry}:manifests  hash     none  SHA-256 → text of a manifest that leases name; deleted about a minute after
//	                                     the last of these leases
//	registry              channel        empty: leases have changed
type Registrations struct {
	client
	epoch string // for a Redis without a version
}

// Registrations returns the leases.
func (s *Store) Registrations() *Registrations {
	return &Registrations{s.client(Registry), rand.Text()}
}

// registration is the stored form of a registration, without its lease and its TTL. Its field is its capability and
// its address, separated by a space.
type registration struct {
	Pinned        []netip.AddrPort `json:"pinned"`
	Weight        int              `json:"weight"`
	Zone          string           `json:"zone,omitempty"`
	Session       string           `json:"session,omitempty"`
	Tenant        string           `json:"tenant,omitempty"`
	Dialect       string           `json:"dialect,omitempty"`
	MaxConcurrent int              `json:"max_concurrent,omitempty"`
	Manifest      string           `json:"manifest,omitempty"` // SHA-256 of its text, hexadecimal; scripts look for it
}

// Register implements registry.Leases.
func (r *Registrations) Register(ctx context.Context, g *registry.Registration, renew bool, most int) error {
	value, err := encodeRegistration(g)
	if err != nil {
		return err
	}
	register := func(sum, text string) (string, error) {
		return r.run(ctx, registerScript, r.keys(), r.channel("registry"), r.epoch,
			fieldOf(g.Key()), value, g.TTL.Milliseconds(), g.Lease, renew, most, sum, text,
			registry.MaxManifests).Text()
	}
	sum := sumOf(g)
	answer, err := register(sum, "")
	if err == nil && answer == "manifest" { // it is missing
		answer, err = register(sum, g.Manifest.Text)
	}
	switch {
	case err != nil:
		return err
	case answer == "superseded":
		return registry.ErrSuperseded
	case answer == "full":
		return registry.ErrFull
	case answer == "manifests full":
		return registry.ErrManifests
	case answer != "registered":
		return errors.New("register a backend: the script returned an unexpected answer")
	}
	return nil
}

// Manifest implements registry.Leases.
func (r *Registrations) Manifest(ctx context.Context, sum registry.Sum) (text string, err error) {
	err = r.do(ctx, func(ctx context.Context, c redis.Cmdable) (err error) {
		text, err = c.HGet(ctx, r.keys()[4], sum.String()).Result()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

// Withdraw implements registry.Leases.
func (r *Registrations) Withdraw(ctx context.Context, key registry.Key, lease string) (bool, error) {
	answer, err := r.run(ctx, withdrawScript, r.keys(), r.channel("registry"), r.epoch, fieldOf(key), lease).Text()
	if answer == "superseded" {
		return false, registry.ErrSuperseded
	}
	return answer == "ended", err
}

// Read implements registry.Leases.
func (r *Registrations) Read(ctx context.Context, since string) (registry.Reading, error) {
	answer, err := r.run(ctx, readScript, r.keys(), r.channel("registry"), r.epoch, since,
		silence.Milliseconds()).Slice()
	if err != nil {
		return registry.Reading{}, err
	}
	var got registry.Reading
	switch len(answer) {
	case 1:
		got.Version, got.Unchanged = since, true
		return got, nil
	case 3:
		got.Version, _ = answer[0].(string)
	}
	live, isLive := answer[1].([]any)
	ended, isEnded := answer[2].([]any)
	if !isLive || !isEnded || len(live)%2 != 0 {
		return got, errors.New("read registrations: the script returned an unexpected answer")
	}
	for i := 0; i < len(live); i += 2 {
		g, ok := decodeRegistration(live[i], live[i+1])
		if !ok {
			r.malformed(r.keys()[0])
			got.Malformed++
			continue
		}
		got.Live = append(got.Live, g)
	}
	for _, field := range ended {
		if key, ok := keyOf(field); ok {
			got.Ended = append(got.Ended, key)
		}
	}
	return got, nil
}

// Watch implements registry.Leases.
func (r *Registrations) Watch(ctx context.Context, changed func()) {
	r.subscribe(ctx, r.channel("registry"), func(string) { changed() }, changed)
}

// keys returns the keys of all scripts, in order.
func (r *Registrations) keys() []string {
	t := tag{"registry"}
	return []string{r.key(t, "leases"), r.key(t, "ends"), r.key(t, "ended"), r.key(t, "state"), r.key(t, "manifests")}
}

func fieldOf(k registry.Key) string { return k.Capability + " " + k.Addr }

func keyOf(field any) (registry.Key, bool) {
	text, _ := field.(string)
	capability, addr, ok := strings.Cut(text, " ")
	return registry.Key{Capability: capability, Addr: addr}, ok
}

// encodeRegistration returns lease, TTL in milliseconds and the rest as JSON, one a line, so that scripts can parse
// the first two.
func encodeRegistration(g *registry.Registration) (string, error) {
	rest, err := json.Marshal(registration{g.Pinned, g.Weight, g.Zone, g.Session, g.Tenant, g.Dialect.String(),
		g.MaxConcurrent, sumOf(g)})
	if err != nil {
		return "", fmt.Errorf("registration: %w", err)
	}
	return g.Lease + "\n" + strconv.FormatInt(g.TTL.Milliseconds(), 10) + "\n" + string(rest), nil
}

// sumOf returns the sum of a registration's manifest, or "".
func sumOf(g *registry.Registration) string {
	if g.Manifest.Sum == (registry.Sum{}) {
		return ""
	}
	return g.Manifest.Sum.String()
}

func decodeRegistration(field, value any) (g registry.Registration, ok bool) {
	key, ok := keyOf(field)
	text, isText := value.(string)
	lines := strings.SplitN(text, "\n", 3)
	if !ok || !isText || len(lines) != 3 {
		return g, false
	}
	ttl, err := strconv.ParseUint(lines[1], 10, 32)
	if err != nil {
		return g, false
	}
	var rest registration
	if json.Unmarshal([]byte(lines[2]), &rest) != nil {
		return g, false
	}
	var brings registry.Manifest
	if rest.Manifest != "" {
		if brings.Sum, ok = registry.ParseSum(rest.Manifest); !ok {
			return g, false
		}
	}
	dialect, ok := call.ParseDialect(rest.Dialect)
	return registry.Registration{
		Capability: key.Capability, Addr: key.Addr, Pinned: rest.Pinned, Weight: rest.Weight, Zone: rest.Zone,
		Session: rest.Session, Tenant: rest.Tenant,
		Dialect: dialect, MaxConcurrent: rest.MaxConcurrent, Manifest: brings,
		TTL: time.Duration(ttl) * time.Millisecond, Lease: lines[0],
	}, ok
}

// silence is the interval without a read by any replica after which renewals are assumed to have been impossible.
// Replicas read every two seconds.
const silence = 15 * time.Second

// luaRegistrations begins all scripts. now is in milliseconds.
const luaRegistrations = luaNextVersion + `
local leases, ends, ended, state, manifests = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function changed()
  redis.call('HSETNX', state, 'epoch', ARGV[2])
  redis.call('HSET', state, 'version', nextVersion(redis.call('HGET', state, 'version')))
  redis.call('PUBLISH', ARGV[1], '')
end
`

// luaManifests stores manifests, which leases name by their sum in their JSON. tidy deletes those that no lease
// names; it visits all leases, so it runs only once in a while.
const luaManifests = `
local function tidy()
  if redis.call('HLEN', manifests) == 0 then return end
  local named = {}
  for _, value in ipairs(redis.call('HVALS', leases)) do
    named[string.match(value, '"manifest":"(%x+)"') or ''] = true
  end
  for _, sum in ipairs(redis.call('HKEYS', manifests)) do
    if not named[sum] then redis.call('HDEL', manifests, sum) end
  end
end
local function size()
  local n = 0
  for _, sum in ipairs(redis.call('HKEYS', manifests)) do n = n + redis.call('HSTRLEN', manifests, sum) end
  return n
end
`

// registerScript publishes no event for a renewal: nothing changes for other replicas.
var registerScript = newScript(luaRegistrations + luaManifests + `
local field, value, ttl, lease, renew, most = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
local old = redis.call('HGET', leases, field)
local sum, text, room = ARGV[9], ARGV[10], tonumber(ARGV[11])
local holder = old and string.match(old, '^([^\n]*)\n')
if renew == '1' and holder and holder ~= lease then return 'superseded' end
if not old and redis.call('HLEN', leases) >= most then return 'full' end
if sum ~= '' and redis.call('HEXISTS', manifests, sum) == 0 then
  if text == '' then return 'manifest' end
  if size() + #text > room then
    tidy()
    if size() + #text > room then return 'manifests full' end
  end
  redis.call('HSET', manifests, sum, text)
end
redis.call('ZADD', ends, now + ttl, field)
if old ~= value then
  redis.call('HSET', leases, field, value)
  redis.call('ZREM', ended, field)
  changed()
end
return 'registered'
`)

var withdrawScript = newScript(luaRegistrations + `
local field, lease = ARGV[3], ARGV[4]
local old = redis.call('HGET', leases, field)
if not old then return 'unknown' end
local holder = string.match(old, '^([^\n]*)\n')
if lease ~= '' and holder and holder ~= lease then return 'superseded' end
redis.call('ZADD', ended, now, field)
redis.call('HDEL', leases, field)
redis.call('ZREM', ends, field)
changed()
return 'ended'
`)

// readScript first ends leases that are over, at most twice a second. It records the time of that, and ends none if
// it cannot write: then backends could not have renewed theirs either. If the last record is old or missing, leases
// get their full time again.
var readScript = newScript(luaRegistrations + luaManifests + `
local since, silence = ARGV[3], tonumber(ARGV[4])
local function sweep()
  local last = tonumber(redis.call('HGET', state, 'swept') or '')
  if last and now >= last and now - last < 500 then return end
  local noted = redis.pcall('HSET', state, 'swept', now)
  if type(noted) == 'table' and noted.err then return end
  local unavailable = not last or now - last > silence
  if redis.call('HLEN', leases) ~= redis.call('ZCARD', ends) then
    for _, field in ipairs(redis.call('HKEYS', leases)) do
      if not redis.call('ZSCORE', ends, field) then redis.call('ZADD', ends, now + 3600000, field) end
    end
  end
  local over = false
  for _, field in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now)) do
    local value = redis.call('HGET', leases, field)
    local ttl = value and tonumber(string.match(value, '^[^\n]*\n(%d+)\n') or '')
    if unavailable and ttl then
      redis.call('ZADD', ends, now + ttl, field)
    else
      redis.call('ZADD', ended, now, field)
      redis.call('HDEL', leases, field)
      redis.call('ZREM', ends, field)
      over = true
    end
  end
  redis.call('ZREMRANGEBYSCORE', ended, '-inf', now - 120000)
  local tidied = tonumber(redis.call('HGET', state, 'tidied') or '')
  if not tidied or now < tidied or now - tidied > 60000 then
    redis.call('HSET', state, 'tidied', now)
    tidy()
  end
  if over then changed() end
end
sweep()
local v = redis.call('HMGET', state, 'epoch', 'version')
local version = v[1] and v[2] and v[1] .. ':' .. v[2] or ''
if version ~= '' and version == since then return {version} end
return {version, redis.call('HGETALL', leases), redis.call('ZRANGE', ended, 0, -1)}
`)

var _ registry.Leases = (*Registrations)(nil)
