package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/tenant"
)

var (
	createTenantScript = newScript("tenants_create")
	updateTenantScript = newScript("tenants_update")
	closeTenantScript  = newScript("tenants_close")
	deleteTenantScript = newScript("tenants_delete")
	addKeyScript       = newScript("apikeys_add")
	writeKeyScript     = newScript("apikeys_write")
	retireKeyScript    = newScript("apikeys_retire")
	revokeKeyScript    = newScript("apikeys_revoke")
	deleteKeyScript    = newScript("apikeys_delete")
)

// Tenants are the shared tenants and API keys. It is a tenant.Store.
type Tenants struct{ client }

// Tenants returns the store of tenants.
func (s *Store) Tenants() *Tenants { return &Tenants{s.client(Identity)} }

// recordKeys returns the keys of a tenant: record, keys.
func (t *Tenants) recordKeys(id string) []string {
	return t.keys([]string{id}, "{ID:tenant}:record", "{ID:tenant}:keys")
}

func (t *Tenants) indexKey() string { return t.key("{tenants}:index") }

func (t *Tenants) versionKey() string { return t.key("{tenants}:version") }

// FindTenant implements tenant.Store.
func (t *Tenants) FindTenant(ctx context.Context, id string) (*tenant.Record, error) {
	key := t.recordKeys(id)[0]
	fields, err := fetch(ctx, t.client, redis.Cmdable.HGetAll, key)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	if !t.signedTenant(key, fields) {
		return nil, nil
	}
	r, ok := parseTenant(id, fields)
	if !ok {
		t.malformed(key)
		return nil, nil
	}
	return r, nil
}

// CreateTenant stores a new tenant. The errors are tenant.ErrTenantExists and tenant.ErrStoreFull.
func (t *Tenants) CreateTenant(ctx context.Context, r *tenant.Record) error {
	n, err := fetch(ctx, t.client, redis.Cmdable.ZCard, t.indexKey())
	if err != nil {
		return err
	}
	if n >= tenant.MaxTenants {
		return tenant.ErrStoreFull
	}
	if err := t.list(ctx, r.ID); err != nil {
		return err
	}
	fields := t.signTenant(r.ID, r.UID, encodeFields(tenantFields(r)))
	at, err := t.run(ctx, createTenantScript, t.recordKeys(r.ID)[:1], append([]any{"uid", r.UID}, fields...)...).Int64()
	switch {
	case err != nil:
		return err
	case at == 0:
		return tenant.ErrTenantExists
	}
	if err := t.list(ctx, r.ID); err != nil { // the deletion of an earlier one may have unlisted it
		return err
	}
	return t.publishChange(ctx, tenant.Change{Tenant: r.ID})
}

// UpdateTenant replaces the mutable fields of a tenant of r's version. The errors are tenant.ErrTenantUnknown and
// tenant.ErrTenantChanged.
func (t *Tenants) UpdateTenant(ctx context.Context, r *tenant.Record) error {
	fields := encodeFields(tenantFields(r))
	if t.store.signer.on() { // a signature is bound to the tenant's uid
		held, err := t.FindTenant(ctx, r.ID)
		if err != nil {
			return err
		}
		if held == nil {
			return tenant.ErrTenantUnknown
		}
		fields = t.signTenant(r.ID, held.UID, fields)
	}
	reply, err := t.run(ctx, updateTenantScript, t.recordKeys(r.ID)[:1], append([]any{r.Version}, fields...)...).Int64()
	if err == nil {
		err = tenantError(reply)
	}
	if err != nil {
		return err
	}
	return t.publishChange(ctx, tenant.Change{Tenant: r.ID})
}

// DeleteTenant deletes a tenant of this version (0: any) and the data under its name. If the tenant has API keys,
// force deletes these too; else the error is tenant.ErrTenantHasKeys. Other errors are tenant.ErrTenantUnknown and
// tenant.ErrTenantChanged.
//
// The tenant is switched off first, and its name stays in use until all its data is deleted. After an error it may be
// called again.
func (t *Tenants) DeleteTenant(ctx context.Context, id string, version int64, force bool) error {
	expected, forced := "", 0
	if version != 0 {
		expected = strconv.FormatInt(version, 10)
	}
	if force {
		forced = 1
	}
	uid, err := t.end(ctx, id, closeTenantScript, expected, forced)
	switch {
	case errors.Is(err, tenant.ErrTenantUnknown): // an earlier call may have failed before these
		return errors.Join(err, t.publishChange(ctx, tenant.Change{Tenant: id}), t.unlist(ctx, id))
	case err != nil:
		return err
	}
	if err := t.erase(ctx, id); err != nil {
		return err
	}
	if err := t.deleteKeys(ctx, id, uid); err != nil {
		return err
	}
	if _, err := t.end(ctx, id, deleteTenantScript, expected, uid); err != nil {
		return err
	}
	return t.unlist(ctx, id)
}

// end runs a script that closes or deletes a tenant, notifies all replicas, and returns the tenant's uid.
func (t *Tenants) end(ctx context.Context, id string, s script, args ...any) (uid string, err error) {
	reply, err := t.run(ctx, s, t.recordKeys(id), args...).Result()
	if err != nil {
		return "", err
	}
	refused, _ := reply.(int64)
	if err := tenantError(refused); err != nil {
		return "", err
	}
	uid, _ = reply.(string)
	return uid, t.publishChange(ctx, tenant.Change{Tenant: id})
}

func tenantError(reply int64) error {
	switch reply {
	case -1:
		return tenant.ErrTenantUnknown
	case -2:
		return tenant.ErrTenantChanged
	case -3:
		return tenant.ErrTenantHasKeys
	}
	return nil
}

func (t *Tenants) list(ctx context.Context, id string) error {
	return t.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.ZAdd(ctx, t.indexKey(), redis.Z{Member: id}).Err()
	})
}

// unlist removes a deleted tenant from the index, unless it was created again meanwhile.
func (t *Tenants) unlist(ctx context.Context, id string) error {
	err := t.do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.ZRem(ctx, t.indexKey(), id).Err() })
	if err != nil {
		return err
	}
	if r, err := t.FindTenant(ctx, id); r == nil {
		return err
	}
	return t.list(ctx, id)
}

// ListTenants returns a page of tenants in the order of their ids, and the cursor of the next page: "" begins, and
// ends. The page may be short.
func (t *Tenants) ListTenants(
	ctx context.Context, after string, most int,
) (page []*tenant.Record, next string, err error) {
	ids, next, err := t.page(ctx, t.indexKey(), after, most)
	if err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		r, err := t.FindTenant(ctx, id)
		if err != nil {
			return nil, "", err
		}
		if r != nil {
			page = append(page, r)
		}
	}
	return page, next, nil
}

// TenantIDs is ListTenants for the ids alone.
func (t *Tenants) TenantIDs(ctx context.Context, after string, most int) (ids []string, next string, err error) {
	return t.page(ctx, t.indexKey(), after, most)
}

// publishChange increments the version and publishes a change.
func (t *Tenants) publishChange(ctx context.Context, c tenant.Change) error {
	var version int64
	err := t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		version, err = r.Incr(ctx, t.versionKey()).Result()
		return err
	})
	if err == nil {
		err = t.publish(ctx, t.channel("tenants"), joinWords([]string{strconv.FormatInt(version, 10), c.Tenant, c.Key}))
	}
	if err != nil {
		return fmt.Errorf("the change was written, but other replicas may not have it yet; repeat it: %w", err)
	}
	return nil
}

// Watch implements tenant.Store.
func (t *Tenants) Watch(ctx context.Context, changed func(uint64, tenant.Change), connected func()) {
	channel := t.channel("tenants")
	t.subscribe(ctx, channel, func(message string) {
		if all, ok := splitWords(message, 3); ok {
			if version, err := strconv.ParseUint(all[0], 10, 64); err == nil {
				changed(version, tenant.Change{Tenant: all[1], Key: all[2]})
				return
			}
		}
		t.malformed(channel)
		connected() // a change was lost
	}, connected)
}

// Version implements tenant.Store.
func (t *Tenants) Version(ctx context.Context) (version uint64, err error) {
	text, err := fetch(ctx, t.client, redis.Cmdable.Get, t.versionKey())
	switch {
	case errors.Is(err, redis.Nil):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

var _ tenant.Store = (*Tenants)(nil)
