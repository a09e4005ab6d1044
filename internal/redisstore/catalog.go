package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
)

// Catalog is the shared state of capabilities' tools. It is a catalog.Store.
//
//	{catalog}:state         hash     none  epoch: changes when everything was lost; version: number of changes
//	{catalog}:changes       sorted   none  capabilities by the version of their last change
//	{catalog}:accepted:CAP  hash     none  tool → accepted hash of its description and schema, and " gone" while the
//	                                       tool is absent
//	{catalog}:set:CAP       string   none  answer of the capability's discovery tool
//	{catalog}:about:CAP     hash     none  sum: SHA-256 of set; ok, failed: ms of the last discoveries; error: cause
//	                                       of the last failure; left: what the last success left out, and why
//	{catalog}:turns         hash     none  capability → "lease until began", ms: the current or last discovery
//	catalog                 channel        empty: the catalog has changed
type Catalog struct{ client }

// Catalog returns the store of the catalog.
func (s *Store) Catalog() *Catalog { return &Catalog{s.client(Policy)} }

func (c *Catalog) catalogKey(rest ...string) string { return c.key(tag{"catalog"}, rest...) }

// Watch implements catalog.Store.
func (c *Catalog) Watch(ctx context.Context, changed func()) {
	c.subscribe(ctx, c.channel("catalog"), func(string) { changed() }, changed)
}

// Changed implements catalog.Store.
func (c *Catalog) Changed(ctx context.Context, since catalog.Revision) (news catalog.Changes, err error) {
	var state []any
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		state, err = r.HMGet(ctx, c.catalogKey("state"), "epoch", "version").Result()
		return err
	})
	if err != nil {
		return news, err
	}
	if len(state) == 2 {
		news.Now.Epoch, _ = state[0].(string)
		version, _ := state[1].(string)
		if news.Now.Version, err = strconv.ParseInt(version, 10, 64); err != nil && news.Now.Epoch != "" {
			c.malformed(c.catalogKey("state"))
		}
	}
	if news.Now == since {
		return news, nil
	}
	if news.Now.Epoch != since.Epoch || news.Now.Version < since.Version { // or a failover undid changes
		news.Everything = true
		return news, nil
	}
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		news.Capabilities, err = r.ZRangeArgs(ctx, redis.ZRangeArgs{
			Key: c.catalogKey("changes"), ByScore: true, Start: "(" + strconv.FormatInt(since.Version, 10),
			Stop: "+inf",
		}).Result()
		return err
	})
	return news, err
}

// Read implements catalog.Store.
func (c *Catalog) Read(ctx context.Context, wants []catalog.ReadRequest) ([]catalog.Record, error) {
	about, accepted := make([]*redis.MapStringStringCmd, len(wants)), make([]*redis.MapStringStringCmd, len(wants))
	err := c.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, w := range wants {
				about[i] = pipe.HGetAll(ctx, c.catalogKey("about", w.Capability))
				accepted[i] = pipe.HGetAll(ctx, c.catalogKey("accepted", w.Capability))
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]catalog.Record, len(wants))
	for i, w := range wants {
		all[i] = c.decodeRecord(w.Capability, about[i].Val(), accepted[i].Val())
		if sum := all[i].Sum; sum != "" && sum != w.Sum {
			if all[i].Set, err = c.set(ctx, w.Capability, sum); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// decodeRecord parses the hashes of a capability. A malformed accepted hash matches no tool.
func (c *Catalog) decodeRecord(capability string, about, accepted map[string]string) catalog.Record {
	s := catalog.Record{Sum: about["sum"], Accepted: make(map[string]toolschema.Hash, len(accepted)),
		Removed: map[string]bool{}}
	s.Last = catalog.DiscoveryStatus{Succeeded: c.parseTime(about["ok"]), Failed: c.parseTime(about["failed"]),
		Error: about["error"], LeftOut: about["left"]}
	for tool, text := range accepted {
		text, absent := strings.CutSuffix(text, absentTool)
		if absent {
			s.Removed[tool] = true
		}
		text, seal, _ := strings.Cut(text, " ")
		hash, ok := toolschema.ParseHash(text)
		if ok = ok && c.verify(ToolRecord, c.catalogKey("accepted", capability), seal, tool, text); !ok {
			c.malformed(c.catalogKey("accepted", capability))
			hash = toolschema.Hash{}
		}
		s.Accepted[tool] = hash
	}
	return s
}

func (c *Catalog) parseTime(text string) time.Time {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// set reads a discovered set, or nil if it has changed meanwhile: another event follows.
func (c *Catalog) set(ctx context.Context, capability, sum string) (text []byte, err error) {
	err = c.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		text, err = r.Get(ctx, c.catalogKey("set", capability)).Bytes()
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	if got := sha256.Sum256(text); hex.EncodeToString(got[:]) != sum {
		c.malformed(c.catalogKey("set", capability))
		return nil, nil
	}
	return text, nil
}

// absentTool ends the accepted hash of an absent tool, as changeScript writes it.
const absentTool = " gone"

// luaPublishChange is Lua that gives a change the next version, and publishes it.
const luaPublishChange = luaNextVersion + `
	local function note(state, changes, epoch, channel, capability)
		redis.call('HSETNX', state, 'epoch', epoch)
		local version = nextVersion(redis.call('HGET', state, 'version'))
		redis.call('HSET', state, 'version', version)
		redis.call('ZADD', changes, version, capability)
		redis.pcall('PUBLISH', channel, '')
	end
	local time = redis.call('TIME')
	local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

// changeScript writes one catalog.Change. It returns -1 if its lease has ended.
//
// KEYS: state, changes, accepted, about, set, turns. ARGV: epoch, channel, capability, lease, sum, set, error, what was
// left out, number of absent tools, these, and pairs of tool and hash. The accepted hash of an absent tool is kept, so
// that no other tool can take its name unnoticed.
var changeScript = newScript(luaPublishChange + `
	local turn, changed = ARGV[4], false
	if turn ~= '' then
		local held = redis.call('HGET', KEYS[6], ARGV[3]) or ''
		local id, began = string.match(held, '^(%S+) %d+ (%d+)$')
		if id ~= turn then return -1 end
		redis.call('HSET', KEYS[6], ARGV[3], id .. ' 0 ' .. began)
		local what = ARGV[7] == '' and 'ok' or 'failed'
		redis.call('HSET', KEYS[4], what, string.format('%.0f', now), 'error', ARGV[7])
		if what == 'ok' then redis.call('HSET', KEYS[4], 'left', ARGV[8]) end
		changed = true
	end
	local first = 10 + tonumber(ARGV[9])
	local gone = {}
	for i = 10, first - 1 do
		gone[ARGV[i]] = true
	end
	for i = first, #ARGV, 2 do
		local tool = ARGV[i]
		local held = redis.call('HGET', KEYS[3], tool)
		local next = held and string.gsub(held, ' gone$', '') or ARGV[i + 1]
		if gone[tool] then next = next .. ' gone' end
		if next ~= held then
			redis.call('HSET', KEYS[3], tool, next)
			changed = true
		end
		gone[tool] = nil
	end
	for tool in pairs(gone) do
		local held = redis.call('HGET', KEYS[3], tool)
		if held and not string.find(held, ' gone$') then
			redis.call('HSET', KEYS[3], tool, held .. ' gone')
			changed = true
		end
	end
	if ARGV[5] ~= '' and redis.call('HGET', KEYS[4], 'sum') ~= ARGV[5] then
		redis.call('SET', KEYS[5], ARGV[6])
		redis.call('HSET', KEYS[4], 'sum', ARGV[5])
		changed = true
	end
	if changed then note(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]) end
	return 0`)

// Write implements catalog.Store.
func (c *Catalog) Write(ctx context.Context, change catalog.Change) error {
	id := change.Capability
	keys := []string{c.catalogKey("state"), c.catalogKey("changes"), c.catalogKey("accepted", id),
		c.catalogKey("about", id), c.catalogKey("set", id),
		c.catalogKey("turns")}
	args := []any{rand.Text(), c.channel("catalog"), id, change.Lease, change.Sum, change.Set, change.Error,
		change.LeftOut, len(change.Removed)}
	for _, tool := range change.Removed {
		args = append(args, tool)
	}
	for tool, hash := range change.Tools {
		args = append(args, tool, c.accepted(id, tool, hash))
	}
	done, err := c.run(ctx, changeScript, keys, args...).Int()
	if err == nil && done < 0 {
		return catalog.ErrLeaseLost
	}
	return err
}

// acceptScript accepts one hash.
//
// KEYS: state, changes, accepted. ARGV: epoch, channel, capability, tool, hash.
var acceptScript = newScript(luaPublishChange + `
	redis.call('HSET', KEYS[3], ARGV[4], ARGV[5])
	note(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])
	return 0`)

// Accept implements catalog.Store.
func (c *Catalog) Accept(ctx context.Context, capability, tool string, hash toolschema.Hash) error {
	keys := []string{c.catalogKey("state"), c.catalogKey("changes"), c.catalogKey("accepted", capability)}
	return c.run(ctx, acceptScript, keys, rand.Text(), c.channel("catalog"), capability, tool,
		c.accepted(capability, tool, hash)).Err()
}

// accepted is the stored form of an accepted hash, with its signature. A hash without a valid signature matches no
// tool. It is not treated as absent, since then the next tool of that name would be accepted.
func (c *Catalog) accepted(capability, tool string, hash toolschema.Hash) string {
	text := hash.String()
	if seal := c.sign(ToolRecord, c.catalogKey("accepted", capability), tool, text); seal != "" {
		text += " " + seal
	}
	return text
}

// acquireLeaseScript grants the lease of a discovery. It returns 0; or the remaining ms of another lease, and 1; or
// the remaining ms until the next discovery, and 2.
//
// KEYS: turns. ARGV: capability, lease, duration of the lease, interval of discoveries (ms).
var acquireLeaseScript = newScript(`
	local time = redis.call('TIME')
	local now = time[1] * 1000 + math.floor(time[2] / 1000)
	local held = redis.call('HGET', KEYS[1], ARGV[1]) or ''
	local id, ends, began = string.match(held, '^(%S+) (%d+) (%d+)$')
	if id and id ~= ARGV[2] then
		local left = ends - now
		if left > 0 then return {left, 1} end
		left = began + ARGV[4] - now
		if left > 0 then return {left, 2} end
	end
	redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. string.format(' %.0f %.0f', now + ARGV[3], now))
	return {0, 0}`)

// AcquireLease implements catalog.Store.
func (c *Catalog) AcquireLease(
	ctx context.Context, capability string, lease, within time.Duration,
) (catalog.Lease, error) {
	id := rand.Text()
	answer, err := c.run(ctx, acquireLeaseScript, []string{c.catalogKey("turns")}, capability, id, lease.Milliseconds(),
		within.Milliseconds()).Int64Slice()
	switch {
	case err != nil:
		return catalog.Lease{}, err
	case len(answer) != 2:
		return catalog.Lease{}, fmt.Errorf("acquire the lease of a discovery: the script returned %v", answer)
	case answer[1] == 0:
		return catalog.Lease{ID: id}, nil
	}
	return catalog.Lease{Busy: answer[1] == 1, Wait: time.Duration(answer[0]) * time.Millisecond}, nil
}

var _ catalog.Store = (*Catalog)(nil)
