package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/session"
)

// People are the sessions of people: the key of their cookies, revocations, and a list. It is a session.Store.
//
//	{people}:key      string   none  key that seals cookies, unless a file has one: 32 bytes
//	{people}:state    hash     none  epoch: changes when everything was lost; version: number of revocations
//	{people}:revoked  sorted   none  "session UNTIL ID" and "name UNTIL BEFORE NAME": revocations by their version; at
//	                                 most 50,000 of each kind
//	{people}:ends     sorted   none  the same by UNTIL, ms; removed after that
//	{people}:names    hash     none  name of a person or key → its revocation of all sessions
//	{people}:owners   hash     none  revocation of a session → its owner
//	{people}:shares   hash     none  owner → number of its revocations; at most four times the free part
//	{people}:issued   hash     none  id → JSON of an issued session, without its secret; at most 2,000
//	{people}:list     sorted   none  the same ids by the end of the session, ms; removed after that
//	people            channel        empty: sessions of people were revoked
type People struct {
	client
	keys Signing
}

// People returns the store of the sessions of people.
func (s *Store) People() *People {
	c := s.client(Identity)
	return &People{client: c, keys: Signing{client: c, of: tag{"people"}}}
}

// SharedKey implements session.Store.
func (p *People) SharedKey(ctx context.Context, proposal []byte) ([]byte, error) {
	return p.keys.SigningKey(ctx, proposal)
}

// Revoke implements session.Store.
func (p *People) Revoke(ctx context.Context, all []session.Revocation) error {
	t := tag{"people"}
	keys := []string{p.key(t, "state"), p.key(t, "revoked"), p.key(t, "ends"), p.key(t, "issued"), p.key(t, "list"),
		p.key(t, "names"), p.key(t, "owners"), p.key(t, "shares")}
	args := []any{rand.Text(), p.channel("people"), session.MaxRevocations}
	for _, v := range all {
		args = append(args, v.Until.UnixMilli(), encodeRevocation(v), v.Session, v.Name, v.Owner)
	}
	stored, err := p.run(ctx, revokeScript, keys, args...).Int()
	if err == nil && stored == 0 {
		err = session.ErrFull
	}
	return err
}

// Revoked implements session.Store.
func (p *People) Revoked(ctx context.Context, after session.Position) (session.Position, []session.Revocation, error) {
	t := tag{"people"}
	keys := []string{p.key(t, "state"), p.key(t, "revoked")}
	answer, err := p.run(ctx, revokedScript, keys, rand.Text(), after.Epoch,
		strconv.FormatUint(after.Version, 10)).StringSlice()
	if err != nil {
		return after, nil, err
	}
	if len(answer) < 2 {
		return after, nil, errors.New("read revocations: the script returned an unexpected answer")
	}
	at := session.Position{Epoch: answer[0]}
	at.Version, _ = strconv.ParseUint(answer[1], 10, 64) // 0 if malformed
	all := make([]session.Revocation, 0, len(answer)-2)
	for _, text := range answer[2:] {
		v, ok := decodeRevocation(text)
		if !ok {
			p.malformed(keys[1])
			continue
		}
		all = append(all, v)
	}
	return at, all, nil
}

// Watch implements session.Store.
func (p *People) Watch(ctx context.Context, changed func()) {
	p.subscribe(ctx, p.channel("people"), func(string) { changed() }, changed)
}

// Add implements session.Store.
func (p *People) Add(ctx context.Context, r session.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	t := tag{"people"}
	return p.run(ctx, addPersonScript, []string{p.key(t, "issued"), p.key(t, "list")}, r.ID, string(text),
		r.Expires.UnixMilli(), session.MaxRecords).Err()
}

// List implements session.Store.
func (p *People) List(ctx context.Context) (all []session.Record, err error) {
	t := tag{"people"}
	keys := []string{p.key(t, "issued"), p.key(t, "list")}
	texts, err := p.run(ctx, listPeopleScript, keys).StringSlice()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	for _, text := range texts {
		var r session.Record
		if json.Unmarshal([]byte(text), &r) != nil || r.ID == "" {
			p.malformed(keys[0])
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b session.Record) int {
		return cmp.Or(b.Issued.Compare(a.Issued), cmp.Compare(b.ID, a.ID))
	})
	return all, nil
}

// encodeRevocation returns "session UNTIL ID" or "name UNTIL BEFORE NAME".
func encodeRevocation(v session.Revocation) string {
	until := strconv.FormatInt(v.Until.UnixMilli(), 10)
	if v.Session != "" {
		return "session " + until + " " + v.Session
	}
	return "name " + until + " " + strconv.FormatInt(v.Before.UnixMilli(), 10) + " " + v.Name
}

func decodeRevocation(text string) (v session.Revocation, ok bool) {
	kind, rest, _ := strings.Cut(text, " ")
	until, rest, _ := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(until, 10, 64)
	v.Until = time.UnixMilli(ms)
	switch kind {
	case "session":
		v.Session = rest
		return v, err == nil && rest != ""
	case "name":
		before, name, _ := strings.Cut(rest, " ")
		ms, err2 := strconv.ParseInt(before, 10, 64)
		v.Before, v.Name = time.UnixMilli(ms), name
		return v, err == nil && err2 == nil && name != ""
	}
	return v, false
}

// revokeScript stores revocations by their versions, and removes those whose sessions have ended by themselves. One of
// all sessions of a person replaces an earlier one. It returns 1, or 0 if there are too many, or too many of one owner.
//
// KEYS: state, revocations by version, the same by their end, issued sessions, the same by their end, revocations by
// the name of the person, owners by revocation, numbers of revocations by owner. ARGV: a new epoch, the channel, the
// bound; then for each revocation its end in ms, its text, the id of its session or "", the name or "", and the owner
// or "".
var revokeScript = newScript(luaNextVersion + `
	local t = redis.call('TIME')
	local now = t[1] * 1000 + math.floor(t[2] / 1000)
	local names, owners, shares, most = KEYS[6], KEYS[7], KEYS[8], tonumber(ARGV[3])
	local function remove(old)
		redis.call('ZREM', KEYS[2], old)
		redis.call('ZREM', KEYS[3], old)
		local name = string.match(old, '^name %d+ %d+ (.*)$')
		if name and redis.call('HGET', names, name) == old then redis.call('HDEL', names, name) end
		local owner = redis.call('HGET', owners, old)
		if owner then
			redis.call('HDEL', owners, old)
			if redis.call('HINCRBY', shares, owner, -1) <= 0 then redis.call('HDEL', shares, owner) end
		end
	end
	for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)) do remove(old) end
	local people = redis.call('HLEN', names)
	local room, roomForNames, own = most - (redis.call('ZCARD', KEYS[2]) - people), most - people, {}
	for i = 4, #ARGV, 5 do
		local name, owner = ARGV[i + 3], ARGV[i + 4]
		if name ~= '' then
			if redis.call('HEXISTS', names, name) == 0 then roomForNames = roomForNames - 1 end
		else
			if owner ~= '' then
				own[owner] = own[owner] or tonumber(redis.call('HGET', shares, owner) or '0')
				if own[owner] >= 4 * room then return 0 end
				own[owner] = own[owner] + 1
			end
			room = room - 1
		end
	end
	if room < 0 or roomForNames < 0 then return 0 end
	redis.call('HSETNX', KEYS[1], 'epoch', ARGV[1])
	for i = 4, #ARGV, 5 do
		local text, session, name, owner = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
		local version = nextVersion(redis.call('HGET', KEYS[1], 'version'))
		redis.call('HSET', KEYS[1], 'version', version)
		if name ~= '' then
			local old = redis.call('HGET', names, name)
			local before = old and string.match(old, '^name %d+ (%d+) ')
			if not before or tonumber(before) <= tonumber(string.match(text, '^name %d+ (%d+) ')) then
				if old then remove(old) end
				redis.call('HSET', names, name, text)
			end
		elseif owner ~= '' and redis.call('HSETNX', owners, text, owner) == 1 then
			redis.call('HINCRBY', shares, owner, 1)
		end
		redis.call('ZADD', KEYS[2], version, text)
		redis.call('ZADD', KEYS[3], ARGV[i], text)
		if session ~= '' then
			redis.call('HDEL', KEYS[4], session)
			redis.call('ZREM', KEYS[5], session)
		end
	end
	redis.call('PUBLISH', ARGV[2], '')
	return 1`)

// revokedScript returns the epoch, the version, and the revocations after a version; of another epoch all.
//
// ARGV: a new epoch, the known epoch, the known version.
var revokedScript = newScript(`
	local epoch = redis.call('HGET', KEYS[1], 'epoch')
	if not epoch then
		epoch = ARGV[1]
		redis.pcall('HSET', KEYS[1], 'epoch', epoch) -- a Redis without free memory can still be read
	end
	local version = redis.call('HGET', KEYS[1], 'version') or '0'
	local after = '(' .. ARGV[3]
	if epoch ~= ARGV[2] or tonumber(version) < tonumber(ARGV[3]) then after = '-inf' end
	local answer = {epoch, version}
	if after == '-inf' or tonumber(version) > tonumber(ARGV[3]) then
		for _, text in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], after, '+inf')) do
			table.insert(answer, text)
		end
	end
	return answer`)

// addPersonScript adds a session to the list, and removes those that have ended, or are too many.
//
// ARGV: id, text, end in ms, the bound.
var addPersonScript = newScript(`
	local t = redis.call('TIME')
	local now = t[1] * 1000 + math.floor(t[2] / 1000)
	redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
	redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
	local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
	local most = redis.call('ZCARD', KEYS[2]) - #gone - tonumber(ARGV[4])
	if most > 0 then
		for _, id in ipairs(redis.call('ZRANGE', KEYS[2], #gone, #gone + most - 1)) do table.insert(gone, id) end
	end
	for _, id in ipairs(gone) do
		redis.call('HDEL', KEYS[1], id)
		redis.call('ZREM', KEYS[2], id)
	end
	return 1`)

// listPeopleScript returns the texts of the sessions that have not ended.
var listPeopleScript = newScript(`
	local t = redis.call('TIME')
	local now = t[1] * 1000 + math.floor(t[2] / 1000)
	local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now), '+inf')
	local answer = {}
	for _, id in ipairs(ids) do
		local text = redis.call('HGET', KEYS[1], id)
		if text then table.insert(answer, text) end
	end
	return answer`)

var _ session.Store = (*People)(nil)
