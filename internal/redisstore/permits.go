package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/router"
)

// PermitStore are the permits of limited fleets' backends. It is a router.PermitStore.
//
//	{slots:capability:addr}  hash     5 s  replica → permits at that backend, waiting calls, start of the wait, ms of
//	                                       the report and of its end, sequence number
//	slots                    channel       "replica capability": the replica begins to wait for a permit, or returned
//	                                       one that others wait for
type PermitStore struct {
	client
	replica string
	ttl     time.Duration
	turn    time.Duration
}

const (
	// permitTTL is the lifetime of a replica's permits after its last report.
	permitTTL = 5 * time.Second
	// permitTurn is how long a waiting replica keeps its position after its last report.
	permitTurn = 500 * time.Millisecond
)

// Permits returns the permits for one replica, with its unique name.
func (s *Store) Permits(replica string) *PermitStore {
	return &PermitStore{s.client(Permits), replica, permitTTL, permitTurn}
}

// Exchange implements router.PermitStore. The demands are sent together, as one script each: their keys are on
// different nodes of a Cluster.
func (p *PermitStore) Exchange(ctx context.Context, capability string, wants []router.Demand) ([]router.Grant, error) {
	sent := make([]*redis.Cmd, len(wants))
	err := p.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range wants {
				sent[i] = permitScript.lua.EvalSha(ctx, pipe, p.keys(capability, &wants[i]),
					p.args(capability, &wants[i])...)
			}
			return nil
		})
		return err
	})
	if failed(err) {
		return nil, err
	}
	grants := make([]router.Grant, len(wants))
	for i := range wants {
		if redis.HasErrorPrefix(sent[i].Err(), "NOSCRIPT") {
			sent[i] = p.run(ctx, permitScript, p.keys(capability, &wants[i]), p.args(capability, &wants[i])...)
		}
		if grants[i], err = p.grant(sent[i], p.keys(capability, &wants[i])[0]); err != nil {
			return nil, err
		}
	}
	return grants, nil
}

func (p *PermitStore) keys(capability string, w *router.Demand) []string {
	return []string{p.key(tag{"slots", capability, w.Addr})}
}

func (p *PermitStore) args(capability string, w *router.Demand) []any {
	return []any{
		p.replica, w.Seq, w.Limit, w.Used, w.Retain, w.Need, w.Spare, p.ttl.Milliseconds(), p.turn.Milliseconds(),
		p.channel("slots"), p.replica + " " + capability,
	}
}

// errOvertaken rejects an exchange that arrived after a later one.
var errOvertaken = errors.New("a later exchange has overtaken this one")

func (p *PermitStore) grant(answer *redis.Cmd, key string) (router.Grant, error) {
	n, err := answer.Int64Slice()
	switch {
	case err != nil:
		return router.Grant{}, err
	case len(n) != 4:
		return router.Grant{}, fmt.Errorf("exchange permits: the script returned %v", n)
	case n[0] < 0:
		return router.Grant{}, errOvertaken
	}
	for range n[3] {
		p.malformed(key)
	}
	return router.Grant{Held: int(n[0]), Waiting: int(n[1]), Replicas: int(n[2])}, nil
}

// Unavailable implements router.PermitStore.
func (p *PermitStore) Unavailable() bool { return p.store.Unavailable() }

// Listen implements router.PermitStore.
func (p *PermitStore) Listen(ctx context.Context, changed func(capability string)) {
	p.subscribe(ctx, p.channel("slots"), func(message string) {
		if from, capability, ok := strings.Cut(message, " "); ok && from != p.replica {
			changed(capability)
		}
	}, func() {})
}

// permitScript exchanges one Demand. A field of the hash is a replica's last report: its permits, its waiting calls,
// the start of their wait (µs), the time and the end of the report (ms), and the sequence number of the Demand.
//
// Replicas that want more get it in the order in which they began to wait; a replica that gets some moves to the end
// of that order. Spare permits are granted only while no replica waits. Redis reduces the permits that a replica
// keeps without using them to those in its report: after a long silence others may have got them.
var permitScript = newScript(`
local me, seq, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local used, keep, need, spare = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local t = redis.call('TIME')
local micros = tonumber(t[1]) * 1000000 + tonumber(t[2])
local now = math.floor(micros / 1000)

local had, waited, since, others, bad = 0, 0, 0, {}, 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
	local held, unmet, from, said, ends, number = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
	if not held then
		bad = bad + 1
		redis.call('HDEL', KEYS[1], all[i])
	elseif tonumber(ends) <= now then
		redis.call('HDEL', KEYS[1], all[i])
	elseif all[i] ~= me then
		table.insert(others, {all[i], tonumber(held), tonumber(unmet), tonumber(from), tonumber(said)})
	elseif tonumber(number) >= seq then
		return {-1, 0, 0, bad}
	else
		had, waited, since = tonumber(held), tonumber(unmet), tonumber(from)
	end
end

local lost = keep - math.max(used, math.min(keep, had))
keep, spare = keep - lost, spare + lost

if waited == 0 then since = micros end
local taken, waiting, ahead = 0, 0, 0
for _, o in ipairs(others) do
	taken = taken + o[2]
	if o[3] > 0 and o[5] > now - tonumber(ARGV[9]) then
		waiting = waiting + 1
		if o[4] < since or o[4] == since and o[1] < me then ahead = ahead + 1 end
	end
end

local free = math.max(limit - taken - keep, 0)
local more = math.min(need, math.max(free - ahead, 0))
local left = need - more
local held = keep + more
if waiting == 0 then held = held + math.min(spare, free - more) end
if more > 0 then since = micros end

if held == 0 and left == 0 then
	redis.call('HDEL', KEYS[1], me)
else
	local ends = now + tonumber(ARGV[8])
	redis.call('HSET', KEYS[1], me,
		string.format('%.0f %.0f %.0f %.0f %.0f %.0f', held, left, since, now, ends, seq))
	redis.call('PEXPIRE', KEYS[1], ARGV[8])
end
if left > 0 and waited == 0 or held < had and waiting > 0 then redis.call('PUBLISH', ARGV[10], ARGV[11]) end
return {held, waiting, #others + 1, bad}
`)
