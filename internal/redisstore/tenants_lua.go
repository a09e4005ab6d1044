package redisstore

// luaNow begins a script that needs Redis' clock, in ms.
const luaNow = `
	local t = redis.call('TIME')
	local now = t[1] * 1000 + math.floor(t[2] / 1000)
	local function text(ms) return string.format('%.0f', ms) end
`

// createTenantScript returns the time, or 0 if the tenant exists.
//
// KEYS: record. ARGV: fields and values.
var createTenantScript = newScript(luaNow + `
	if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
	redis.call('HSET', KEYS[1], 'created', text(now), 'updated', text(now), 'version', 1, unpack(ARGV))
	return now`)

// updateTenantScript returns the time, -1 if there is no such tenant, or -2 if it has another version.
//
// KEYS: record. ARGV: version, fields and values.
var updateTenantScript = newScript(luaNow + `
	local version = redis.call('HGET', KEYS[1], 'version')
	if not version then return -1 end
	if version ~= ARGV[1] then return -2 end
	redis.call('HSET', KEYS[1], 'updated', text(now), 'version', version + 1, unpack(ARGV, 2))
	return now`)

// closeTenantScript switches off a tenant that is to be deleted. It returns the uid, the errors of
// updateTenantScript, or -3 if the tenant has keys. The version stays, so that a failed deletion can be repeated with
// it.
//
// KEYS: record, keys. ARGV: version or "", 1 to accept keys.
var closeTenantScript = newScript(`
	local version = redis.call('HGET', KEYS[1], 'version')
	if not version then return -1 end
	if ARGV[1] ~= '' and version ~= ARGV[1] then return -2 end
	if ARGV[2] ~= '1' and redis.call('ZCARD', KEYS[2]) > 0 then return -3 end
	redis.call('HSET', KEYS[1], 'disabled', 'true')
	return redis.call('HGET', KEYS[1], 'uid')`)

// deleteTenantScript deletes a tenant that closeTenantScript has switched off. It returns the uid, or the errors of
// updateTenantScript.
//
// KEYS: record, keys. ARGV: version or "", uid.
var deleteTenantScript = newScript(`
	local f = redis.call('HMGET', KEYS[1], 'version', 'uid', 'disabled')
	if not f[1] then return -1 end
	if ARGV[1] ~= '' and f[1] ~= ARGV[1] or f[2] ~= ARGV[2] or f[3] ~= 'true' then return -2 end
	redis.call('DEL', KEYS[1])
	return f[2]`)

// addKeyScript adds a key to its tenant's list. It returns 1, -1 if that tenant does not exist or is another one, or
// -2 if it has too many keys.
//
// KEYS: record, keys. ARGV: id, the tenant's uid ("": a tenant of the file), maximum.
var addKeyScript = newScript(`
	if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'uid') ~= ARGV[2] then return -1 end
	if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) then return -2 end
	redis.call('ZADD', KEYS[2], 0, ARGV[1])
	return 1`)

// writeKeyScript returns the time, or 0 if the key exists.
//
// KEYS: record. ARGV: time of its expiry in ms or "", fields and values.
var writeKeyScript = newScript(luaNow + `
	if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
	redis.call('HSET', KEYS[1], 'created', text(now), unpack(ARGV, 2))
	if ARGV[1] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[1]) end
	return now`)

// retireKeyScript ends a key that another one replaces. It returns 1, -1 if there is no such key, -2 if it has ended,
// or -3 if another key replaces it.
//
// KEYS: record. ARGV: tenant, id of the other key, ms until the end, ms from the end to the deletion.
var retireKeyScript = newScript(luaNow + `
	local f = redis.call('HMGET', KEYS[1], 'tenant', 'revoked', 'expires', 'to')
	if f[1] ~= ARGV[1] then return -1 end
	if f[2] or f[3] and tonumber(f[3]) <= now then return -2 end
	if f[4] then return -3 end
	local ends = now + ARGV[3]
	redis.call('HSET', KEYS[1], 'to', ARGV[2], 'ends', text(ends), 'retired', text(now))
	redis.call('PEXPIREAT', KEYS[1], text(ends + ARGV[4]))
	return 1`)

// revokeKeyScript returns 1, also for a revoked key, or -1 if there is no such key.
//
// KEYS: record. ARGV: tenant, ms until the deletion.
var revokeKeyScript = newScript(luaNow + `
	local f = redis.call('HMGET', KEYS[1], 'tenant', 'revoked')
	if f[1] ~= ARGV[1] then return -1 end
	if not f[2] then
		redis.call('HSET', KEYS[1], 'revoked', text(now))
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
	end
	return 1`)

// deleteKeyScript deletes a key of the tenant with that uid. It returns whether the key is gone.
//
// KEYS: record. ARGV: tenant, uid.
var deleteKeyScript = newScript(`
	local f = redis.call('HMGET', KEYS[1], 'tenant', 'uid')
	if f[1] and (f[1] ~= ARGV[1] or f[2] ~= ARGV[2]) then return 0 end
	redis.call('DEL', KEYS[1])
	return 1`)
