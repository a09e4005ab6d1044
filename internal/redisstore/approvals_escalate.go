package redisstore

import (
	"context"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// Approvals that escalate are in the sorted set "escalate" of their tenant, by the time when they are due. The replica
// that removes an approval from it publishes the event, so that there is one.

// dueScript returns pending approvals that are due, and the ms until there may be more; -1: there are none.
var dueScript = newScript(luaApprovals + `
local escalate, found = base .. 'escalate', {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', escalate, '-inf', now, 'LIMIT', 0, 100)) do
  local r = find(id)
  if r and r.state == 'pending' then found[#found + 1] = whole(r) else redis.call('ZREM', escalate, id) end
end
local next = redis.call('ZRANGE', escalate, 0, 0, 'WITHSCORES')
return answer(next[2] and math.max(tonumber(next[2]) - now, 0) or -1, found)
`)

// escalateScript ends the wait of an approval. ARGV: id.
var escalateScript = newScript(luaApprovals + `
local id = ARGV[5]
if redis.call('ZREM', base .. 'escalate', id) == 0 then return answer('no') end
local r = find(id)
if not r or r.state ~= 'pending' then return answer('no') end
tell('escalated', id)
return answer('escalated')
`)

// postponeScript changes when an approval is due. ARGV: id, ms from now, or a negative number for never.
var postponeScript = newScript(luaApprovals + `
local id, after, escalate = ARGV[5], tonumber(ARGV[6]), base .. 'escalate'
if after < 0 then
  redis.call('ZREM', escalate, id)
elseif redis.call('ZSCORE', escalate, id) then
  redis.call('ZADD', escalate, now + after, id)
end
return answer()
`)

// Due implements approvals.DueStore.
func (a *ApprovalStore) Due(ctx context.Context, tenant string) (due []approvals.Record, next time.Duration,
	err error) {
	reply, err := a.exec(ctx, dueScript, tenant)
	if err != nil {
		return nil, 0, err
	}
	if len(reply) != 2 {
		return nil, 0, errApprovals
	}
	list, _ := reply[1].([]any)
	for _, fields := range list {
		r, err := a.record(tenant, fields)
		if err == nil {
			due = append(due, r)
			continue
		}
		if id := pairs(fields)["id"]; id != "" { // a forged record is no approval
			_ = a.Postpone(ctx, tenant, id, -1)
		}
	}
	wait, _ := reply[0].(int64)
	return due, time.Duration(wait) * time.Millisecond, nil
}

// Escalate implements approvals.DueStore.
func (a *ApprovalStore) Escalate(ctx context.Context, tenant, id string) (bool, error) {
	reply, err := a.exec(ctx, escalateScript, tenant, id)
	return textAt(reply, 0) == "escalated", err
}

// Postpone implements approvals.DueStore.
func (a *ApprovalStore) Postpone(ctx context.Context, tenant, id string, after time.Duration) error {
	_, err := a.exec(ctx, postponeScript, tenant, id, after.Milliseconds())
	return err
}
