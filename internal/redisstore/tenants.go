package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/tenant"
)

// Tenants are the shared tenants and API keys. It is a tenant.Store.
type Tenants struct{ client }

// Tenants returns the store of tenants.
func (s *Store) Tenants() *Tenants { return &Tenants{s.client(Identity)} }

func recordTag(id string) tag { return tag{id, "tenant"} }

// recordKeys returns the keys of a tenant: record, keys.
func (t *Tenants) recordKeys(id string) []string {
	of := recordTag(id)
	return []string{t.key(of, "record"), t.key(of, "keys")}
}

func (t *Tenants) indexKey() string { return t.key(tag{"tenants"}, "index") }

func (t *Tenants) versionKey() string { return t.key(tag{"tenants"}, "version") }

// FindTenant implements tenant.Store.
func (t *Tenants) FindTenant(ctx context.Context, id string) (*tenant.Record, error) {
	key := t.recordKeys(id)[0]
	fields, err := t.fields(ctx, key)
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

func (t *Tenants) fields(ctx context.Context, key string) (fields map[string]string, err error) {
	err = t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		fields, err = r.HGetAll(ctx, key).Result()
		return err
	})
	return fields, err
}

// CreateTenant stores a new tenant. tenant.ErrThere, tenant.ErrFull.
func (t *Tenants) CreateTenant(ctx context.Context, r *tenant.Record) error {
	fields, err := tenantFields(r)
	if err != nil {
		return err
	}
	n, err := t.count(ctx, t.indexKey())
	if err != nil {
		return err
	}
	if n >= tenant.MaxTenants {
		return tenant.ErrStoreFull
	}
	if err := t.list(ctx, r.ID); err != nil {
		return err
	}
	fields = t.sealTenant(r.ID, r.UID, fields)
	at, err := t.run(ctx, createTenantScript, t.recordKeys(r.ID)[:1], append([]any{"uid", r.UID}, fields...)...).Int64()
	switch {
	case err != nil:
		return err
	case at == 0:
		return tenant.ErrTenantExists
	}
	if err := t.list(ctx, r.ID); err != nil { // who deleted one with this id may have taken it off
		return err
	}
	return t.tell(ctx, tenant.Change{Tenant: r.ID})
}

// UpdateTenant puts other settings in the place of those that a tenant has by r's version.
// tenant.ErrUnknown, tenant.ErrChanged.
func (t *Tenants) UpdateTenant(ctx context.Context, r *tenant.Record) error {
	fields, err := tenantFields(r)
	if err != nil {
		return err
	}
	if t.store.seals.on() { // a signature is bound to the tenant's uid
		held, err := t.FindTenant(ctx, r.ID)
		if err != nil {
			return err
		}
		if held == nil {
			return tenant.ErrTenantUnknown
		}
		fields = t.sealTenant(r.ID, held.UID, fields)
	}
	said, err := t.run(ctx, updateTenantScript, t.recordKeys(r.ID)[:1], append([]any{r.Version}, fields...)...).Int64()
	if err == nil {
		err = tenantError(said)
	}
	if err != nil {
		return err
	}
	return t.tell(ctx, tenant.Change{Tenant: r.ID})
}

// DeleteTenant deletes a tenant of this version, 0 for any, and what is kept under its name. Its keys are deleted
// too, if it is forced; else it is not, where there are any. tenant.ErrUnknown, tenant.ErrChanged, tenant.ErrKeys.
//
// First it is switched off, and its name stays taken until nothing is left for who gets it next. After an error it may
// be called again.
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
	case errors.Is(err, tenant.ErrTenantUnknown): // an earlier call may not have got so far
		return errors.Join(err, t.tell(ctx, tenant.Change{Tenant: id}), t.unlist(ctx, id))
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

// end runs a script that ends a tenant in part, lets all replicas know, and returns its uid.
func (t *Tenants) end(ctx context.Context, id string, s script, args ...any) (uid string, err error) {
	said, err := t.run(ctx, s, t.recordKeys(id), args...).Result()
	if err != nil {
		return "", err
	}
	refused, _ := said.(int64)
	if err := tenantError(refused); err != nil {
		return "", err
	}
	uid, _ = said.(string)
	return uid, t.tell(ctx, tenant.Change{Tenant: id})
}

func tenantError(said int64) error {
	switch said {
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

// unlist takes a tenant off the list that was deleted, unless it was made anew meanwhile.
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

// ListTenants answers with a page of them, by id, and after what to go on: "" is where to
// begin, and that there is no more. The page may be short.
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

// TenantIDs returns a page of their ids alone, like ListTenants.
func (t *Tenants) TenantIDs(ctx context.Context, after string, most int) (ids []string, next string, err error) {
	return t.page(ctx, t.indexKey(), after, most)
}

// page reads a page of a sorted set.
func (t *Tenants) page(ctx context.Context, key, after string, most int) (page []string, next string, err error) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	err = t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		page, err = r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: key, ByLex: true, Start: from, Stop: "+", Count: int64(most) +
			1}).Result()
		return err
	})
	if len(page) > most {
		page = page[:most]
		next = page[most-1]
	}
	return page, next, err
}

func (t *Tenants) count(ctx context.Context, key string) (n int64, err error) {
	err = t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		n, err = r.ZCard(ctx, key).Result()
		return err
	})
	return n, err
}

// tell publishes a change.
func (t *Tenants) tell(ctx context.Context, c tenant.Change) error {
	var version int64
	err := t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		version, err = r.Incr(ctx, t.versionKey()).Result()
		return err
	})
	if err == nil {
		err = t.publish(ctx, t.channel("tenants"), words([]string{strconv.FormatInt(version, 10), c.Tenant, c.Key}))
	}
	if err != nil {
		return fmt.Errorf("the change was written, but other replicas may not know it yet; repeat it: %w", err)
	}
	return nil
}

// Follow implements tenant.Store.
func (t *Tenants) Follow(ctx context.Context, told func(uint64, tenant.Change), connected func()) {
	channel := t.channel("tenants")
	t.subscribe(ctx, channel, func(message string) {
		if all, ok := parseWords(message, 3); ok {
			if version, err := strconv.ParseUint(all[0], 10, 64); err == nil {
				told(version, tenant.Change{Tenant: all[1], Key: all[2]})
				return
			}
		}
		t.malformed(channel)
		connected() // there are changes
	}, connected)
}

// Version implements tenant.Store.
func (t *Tenants) Version(ctx context.Context) (version uint64, err error) {
	err = t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		version, err = r.Get(ctx, t.versionKey()).Uint64()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return version, err
}

var _ tenant.Store = (*Tenants)(nil)
