package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/drains"
)

// Drains are the backends that operators took out of fleets. It is a drains.Store.
//
//	{drains}:backends  hash     none  "capability addr" → start of the drain, and ms when a replica reported it last;
//	                                  deleted an hour after that
//	{drains}:calls     hash     none  replica → ms of its report, its calls at drained backends; deleted after 15 s
//	{drains}:ended     sorted   none  fields whose drain ended in the last hour, by ms: a replica that missed the end
//	                                  does not restore them
//	{drains}:by        hash     none  "capability addr" → start of the drain, and the name of the operator
//	{drains}:state     hash     none  epoch: changes when everything was lost
//	drains             channel        empty: drains have begun or ended
type Drains struct{ client }

// Drains returns the store of drains.
func (s *Store) Drains() *Drains { return &Drains{s.client(Health)} }

// Exchange implements drains.Store.
func (d *Drains) Exchange(ctx context.Context, r drains.Report) (drains.View, error) {
	var held, calls, names strings.Builder
	for _, x := range r.Active {
		since := strconv.FormatInt(x.Since.UnixMilli(), 10)
		held.WriteString(since + " " + drainField(x.Key) + "\n")
		if slices.Contains(r.Set, x.Key) {
			since = "-" // the store's clock will say it
		}
		if x.By != "" {
			names.WriteString(since + " " + drainField(x.Key) + " " + url.PathEscape(x.By) + "\n")
		}
	}
	for key, n := range r.Calls {
		calls.WriteString(strconv.FormatInt(n, 10) + " " + drainField(key) + "\n")
	}
	t := tag{"drains"}
	keys := []string{d.key(t, "backends"), d.key(t, "calls"), d.key(t, "state"), d.key(t, "ended"), d.key(t, "by")}
	answer, err := d.run(ctx, drainsScript, keys, d.channel("drains"), rand.Text(), r.Replica, r.Epoch,
		drainFields(r.Set), drainFields(r.End), held.String(), drainFields(r.Known), calls.String(), r.Leaving,
		drains.MaxDrains, names.String()).Slice()
	if err != nil {
		return drains.View{}, err
	}
	if len(answer) != 6 {
		return drains.View{}, errors.New("exchange drains: the script returned an unexpected answer")
	}
	var v drains.View
	v.Epoch, _ = answer[0].(string)
	written, _ := answer[1].(int64)
	full, _ := answer[2].(int64)
	v.Written, v.Full = written == 1, full == 1
	by := pairs(answer[5])
	for field, value := range pairs(answer[3]) {
		since, _, _ := strings.Cut(value, " ")
		key, n, ok := parseDrain(since + " " + field)
		if !ok {
			d.malformed(keys[0])
			continue
		}
		name, err := url.PathUnescape(by[field])
		if err != nil {
			d.malformed(keys[4])
		}
		v.Drains = append(v.Drains, drains.Drain{Key: key, Since: time.UnixMilli(n), By: name})
	}
	v.Calls = map[string]map[drains.Key]int64{}
	for replica, value := range pairs(answer[4]) {
		_, lines, _ := strings.Cut(value, "\n")
		v.Calls[replica] = map[drains.Key]int64{}
		for line := range strings.Lines(lines) {
			if key, n, ok := parseDrain(strings.TrimSuffix(line, "\n")); ok {
				v.Calls[replica][key] = n
			} else {
				d.malformed(keys[1])
			}
		}
	}
	return v, nil
}

// Watch implements drains.Store.
func (d *Drains) Watch(ctx context.Context, changed func()) {
	d.subscribe(ctx, d.channel("drains"), func(string) { changed() }, changed)
}

func drainField(k drains.Key) string { return k.Capability + " " + k.Addr }

func drainFields(keys []drains.Key) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(drainField(k) + "\n")
	}
	return b.String()
}

// parseDrain parses a number, a capability and an address.
func parseDrain(line string) (key drains.Key, n int64, ok bool) {
	words := strings.Split(line, " ")
	if len(words) != 3 || words[1] == "" || words[2] == "" {
		return key, 0, false
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	return drains.Key{Capability: words[1], Addr: words[2]}, n, err == nil && n >= 0
}

// pairs returns the fields and values of a hash.
func pairs(v any) map[string]string {
	list, _ := v.([]any)
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		field, _ := list[i].(string)
		m[field], _ = list[i+1].(string)
	}
	return m
}

// drainsScript writes with pcall: a Redis without free memory can still be read.
var drainsScript = newScript(`
local backends, calls, state, ended, by = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, new, replica, known_epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most = tonumber(ARGV[11])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local written, full, changed, field = 1, 0, false, nil
local function write(...)
  local r = redis.pcall(...)
  if type(r) == 'table' and r.err then written = 0; return false end
  return r
end
local epoch = redis.call('HGET', state, 'epoch')
if not epoch then
  epoch = new
  write('HSET', state, 'epoch', epoch)
end
local function add(field, since)
  if redis.call('HEXISTS', backends, field) == 1 then return end
  if redis.call('HLEN', backends) >= most then full = 1; return end
  if write('HSET', backends, field, since .. ' ' .. now) then changed = true end
end
if known_epoch ~= '' and known_epoch ~= epoch then
  for since, field in string.gmatch(ARGV[7], '(%d+) ([^\n]+)\n') do
    if not redis.call('ZSCORE', ended, field) then add(field, since) end
  end
end
for field in string.gmatch(ARGV[5], '([^\n]+)\n') do
  write('ZREM', ended, field)
  add(field, now)
end
for field in string.gmatch(ARGV[6], '([^\n]+)\n') do
  if write('HDEL', backends, field) == 1 then changed = true end
  write('ZADD', ended, now, field)
end
write('ZREMRANGEBYSCORE', ended, '-inf', now - 3600000)
write('ZREMRANGEBYRANK', ended, 0, -most - 1)
for field in string.gmatch(ARGV[8], '([^\n]+)\n') do
  local since, seen = string.match(redis.call('HGET', backends, field) or '', '^(%d+) (%d+)$')
  if since and now - tonumber(seen) > 60000 then write('HSET', backends, field, since .. ' ' .. now) end
end
for i, v in ipairs(redis.call('HGETALL', backends)) do
  if i % 2 == 1 then field = v else
    local seen = string.match(v, '^%d+ (%d+)$')
    if seen and now - tonumber(seen) > 3600000 then
      if write('HDEL', backends, field) == 1 then changed = true end
    end
  end
end
if ARGV[10] == '1' then write('HDEL', calls, replica)
else write('HSET', calls, replica, now .. '\n' .. ARGV[9]) end
for i, v in ipairs(redis.call('HGETALL', calls)) do
  if i % 2 == 1 then field = v else
    local at = string.match(v, '^(%d+)\n')
    if not at or now - tonumber(at) > 15000 then write('HDEL', calls, field) end
  end
end
if changed then redis.call('PUBLISH', channel, '') end
local drained = redis.call('HGETALL', backends)
local since_of = {}
for i = 1, #drained, 2 do since_of[drained[i]] = string.match(drained[i + 1], '^%d+') end
-- A name holds for the drain that began at its time. Replicas of earlier versions begin and end drains without names.
for since, field, who in string.gmatch(ARGV[12], '(%S+) (%S+ %S+) (%S+)\n') do
  local at = since_of[field]
  if at and (since == '-' or since == at) and string.match(redis.call('HGET', by, field) or '', '^%d+') ~= at then
    write('HSET', by, field, at .. ' ' .. who)
  end
end
local named = {}
for i, v in ipairs(redis.call('HGETALL', by)) do
  if i % 2 == 1 then field = v else
    local at, who = string.match(v, '^(%d+) (%S+)$')
    if at and at == since_of[field] then
      named[#named + 1] = field
      named[#named + 1] = who
    else write('HDEL', by, field) end
  end
end
local counted = {}
if #drained > 0 then counted = redis.call('HGETALL', calls) end
return {epoch, written, full, drained, counted, named}
`)

var _ drains.Store = (*Drains)(nil)
