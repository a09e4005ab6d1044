package redisstore

// luaNow begins a script that needs Redis' clock, in ms.
const luaNow = `
	local t = redis.call('TIME')
	local now = t[1] * 1000 + math.floor(t[2] / 1000)
	local function text(ms) return string.format('%.0f', ms) end
`

// createTenantScript answers with when, or 0 where there is one.
//
// KEYS: record. ARGV: fields and values.
var createTenantScript = newScript(luaNow + `
	if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
	redis.call('HSET', KEYS[1], 'created', text(now), 'updated', text(now), 'version', 1, unpack(ARGV))
	return now`)

// updateTenantScript answers with when, or -1 where there is none and -2 where it is another
// version.
//
// KEYS: record. ARGV: version, fields and values.
var updateTenantScript = newScript(luaNow + `
	local version = redis.call('HGET', KEYS[1], 'version')
	if not version then return -1 end
	if version ~= ARGV[1] then return -2 end
	redis.call('HSET', KEYS[1], 'updated', text(now), 'version', version + 1, unpack(ARGV, 2))
	return now`)

// closeTenantScript switches off a tenant that is to be deleted. It answers with its uid, or what updateTenantScript
// does, and -3 where there are keys. The version stays, so that who was told of it may go on.
//
// KEYS: record, keys. ARGV: version or nothing, 1 to do it although there are keys.
var closeTenantScript = newScript(`
	local version = redis.call('HGET', KEYS[1], 'version')
	if not version then return -1 end
	if ARGV[1] ~= '' and version ~= ARGV[1] then return -2 end
	if ARGV[2] ~= '1' and redis.call('ZCARD', KEYS[2]) > 0 then return -3 end
	redis.call('HSET', KEYS[1], 'disabled', 'true')
	return redis.call('HGET', KEYS[1], 'uid')`)

// deleteTenantScript deletes a tenant that closeTenantScript switched off. It answers with its uid, or what
// updateTenantScript does.
//
// KEYS: record, keys. ARGV: version or nothing, uid.
var deleteTenantScript = newScript(`
	local f = redis.call('HMGET', KEYS[1], 'version', 'uid', 'disabled')
	if not f[1] then return -1 end
	if ARGV[1] ~= '' and f[1] ~= ARGV[1] or f[2] ~= ARGV[2] or f[3] ~= 'true' then return -2 end
	redis.call('DEL', KEYS[1])
	return f[2]`)

// addKeyScript lists a key with its tenant. It answers with 1, or -1 where that is not there
// or another one, and -2 where there are too many.
//
// KEYS: record, keys. ARGV: id, the tenant's uid or nothing for one of the file, most.
var addKeyScript = newScript(`
	if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'uid') ~= ARGV[2] then return -1 end
	if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) then return -2 end
	redis.call('ZADD', KEYS[2], 0, ARGV[1])
	return 1`)

// writeKeyScript answers with when, or 0 where there is one.
//
// KEYS: record. ARGV: when it is forgotten in ms or nothing, fields and values.
var writeKeyScript = newScript(luaNow + `
	if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
	redis.call('HSET', KEYS[1], 'created', text(now), unpack(ARGV, 2))
	if ARGV[1] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[1]) end
	return now`)

// retireKeyScript lets a key end because another replaces it. It answers with 1, or -1 where
// there is none, -2 where it is over, and -3 where another one replaces it.
//
// KEYS: record. ARGV: tenant, id of the other, ms until it ends, ms until it is forgotten after that.
var retireKeyScript = newScript(luaNow + `
	local f = redis.call('HMGET', KEYS[1], 'tenant', 'revoked', 'expires', 'to')
	if f[1] ~= ARGV[1] then return -1 end
	if f[2] or f[3] and tonumber(f[3]) <= now then return -2 end
	if f[4] then return -3 end
	local ends = now + ARGV[3]
	redis.call('HSET', KEYS[1], 'to', ARGV[2], 'ends', text(ends), 'retired', text(now))
	redis.call('PEXPIREAT', KEYS[1], text(ends + ARGV[4]))
	return 1`)

// revokeKeyScript answers with 1, also where it was revoked before, or -1 where there is none.
//
// KEYS: record. ARGV: tenant, ms until it is forgotten.
var revokeKeyScript = newScript(luaNow + `
	local f = redis.call('HMGET', KEYS[1], 'tenant', 'revoked')
	if f[1] ~= ARGV[1] then return -1 end
	if not f[2] then
		redis.call('HSET', KEYS[1], 'revoked', text(now))
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
	end
	return 1`)

// deleteKeyScript deletes a key if it is of the tenant with that uid, and says whether it is
// not there any more.
//
// KEYS: record. ARGV: tenant, uid.
var deleteKeyScript = newScript(`
	local f = redis.call('HMGET', KEYS[1], 'tenant', 'uid')
	if f[1] and (f[1] ~= ARGV[1] or f[2] ~= ARGV[2]) then return 0 end
	redis.call('DEL', KEYS[1])
	return 1`)
