package redisstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/tenant"
)

// endedKeyTTL is the lifetime of a record after the end of its key.
const endedKeyTTL = 30 * 24 * time.Hour

func (t *Tenants) apiKey(id string) string { return t.key("{key:ID}:record", id) }

// FindKey implements tenant.Store.
func (t *Tenants) FindKey(ctx context.Context, id string) (*tenant.Key, error) {
	key := t.apiKey(id)
	fields, err := fetch(ctx, t.client, redis.Cmdable.HGetAll, key)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	if !t.verify(KeyRecord, key, fields["seal"], sortedFields(fields, unsignedKeyFields)...) {
		return nil, nil
	}
	k, ok := parseKey(id, fields)
	if !ok {
		t.malformed(key)
		return nil, nil
	}
	return k, nil
}

// CreateKey stores a key. Its UID is its tenant's, or "" for a tenant of the file. The errors are
// tenant.ErrTenantUnknown and tenant.ErrStoreFull.
func (t *Tenants) CreateKey(ctx context.Context, k *tenant.Key) error {
	if err := t.addKey(ctx, k); err != nil {
		return err
	}
	return t.publishChange(ctx, tenant.Change{Key: k.ID})
}

// addKey writes a key before it lists it: a listed key without a record has ended. A record that is not listed is of
// no use, as its creator got an error.
func (t *Tenants) addKey(ctx context.Context, k *tenant.Key) error {
	forgotten := ""
	if !k.Expires.IsZero() {
		forgotten = strconv.FormatInt(k.Expires.Add(endedKeyTTL).UnixMilli(), 10)
	}
	at, err := t.run(ctx, writeKeyScript, []string{t.apiKey(k.ID)},
		append([]any{forgotten}, t.signKey(k.ID, encodeFields(keyFields(k)))...)...).Int64()
	if err != nil {
		return err
	}
	if at == 0 {
		return errors.New("a key with this id already exists")
	}
	k.Created = time.UnixMilli(at)
	reply, err := t.run(ctx, addKeyScript, t.recordKeys(k.Tenant), k.ID, k.UID, tenant.MaxKeys).Int64()
	if err == nil && reply == 1 {
		return nil
	}
	if dropped := t.dropKey(ctx, k.Tenant, k.UID, k.ID); err == nil {
		err = dropped
	}
	switch {
	case err != nil:
		return err
	case reply == -1:
		return tenant.ErrTenantUnknown
	}
	return tenant.ErrStoreFull
}

// RotateKey creates next as the successor of a key of its tenant, which then ends after grace. The errors are
// tenant.ErrKeyUnknown, tenant.ErrKeyExpired, tenant.ErrKeyRotated, and those of CreateKey.
func (t *Tenants) RotateKey(ctx context.Context, id string, next *tenant.Key, grace time.Duration) error {
	if err := t.addKey(ctx, next); err != nil {
		return err
	}
	reply, err := t.run(ctx, retireKeyScript, []string{t.apiKey(id)}, next.Tenant, next.ID, grace.Milliseconds(),
		endedKeyTTL.Milliseconds()).Int64()
	if err != nil {
		return err // the key may have been rotated, so next stays
	}
	if reply == 1 {
		return errors.Join(t.publishChange(ctx, tenant.Change{Key: id}),
			t.publishChange(ctx, tenant.Change{Key: next.ID}))
	}
	if err := t.dropKey(ctx, next.Tenant, next.UID, next.ID); err != nil {
		return err
	}
	switch reply {
	case -1:
		return tenant.ErrKeyUnknown
	case -2:
		return tenant.ErrKeyExpired
	}
	return tenant.ErrKeyRotated
}

// RevokeKey ends a key at once. It is idempotent. The error is tenant.ErrKeyUnknown.
func (t *Tenants) RevokeKey(ctx context.Context, of, id string) error {
	reply, err := t.run(ctx, revokeKeyScript, []string{t.apiKey(id)}, of, endedKeyTTL.Milliseconds()).Int64()
	switch {
	case err != nil:
		return err
	case reply == -1:
		return tenant.ErrKeyUnknown
	}
	return t.publishChange(ctx, tenant.Change{Key: id})
}

// ListKeys returns a page of a tenant's keys and the cursor of the next one, like ListTenants. uid is the tenant's,
// or "" for a tenant of the file. Keys that are left of an earlier tenant with this id are deleted.
func (t *Tenants) ListKeys(
	ctx context.Context, of, uid, after string, most int,
) (page []*tenant.Key, next string, err error) {
	ids, next, err := t.page(ctx, t.recordKeys(of)[1], after, most)
	if err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		k, err := t.FindKey(ctx, id)
		switch {
		case err != nil:
		case k == nil:
			err = t.dropKey(ctx, of, "", id)
		case uid == "" || uid == k.UID:
			page = append(page, k)
		default:
			err = t.dropKey(ctx, of, k.UID, id)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return page, next, nil
}

// dropKey deletes a key of the tenant with that uid, and removes it from the list.
func (t *Tenants) dropKey(ctx context.Context, of, uid, id string) error {
	gone, err := t.run(ctx, deleteKeyScript, []string{t.apiKey(id)}, of, uid).Int()
	if err != nil || gone == 0 {
		return err
	}
	return t.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.ZRem(ctx, t.recordKeys(of)[1], id).Err()
	})
}

// deleteKeys deletes the keys of a tenant that is being deleted. It notifies replicas of each key: otherwise they would
// cache it for a while, and accept it for a tenant of the file that later gets the same id.
func (t *Tenants) deleteKeys(ctx context.Context, of, uid string) error {
	for after := ""; ; {
		ids, next, err := t.page(ctx, t.recordKeys(of)[1], after, 100)
		if err != nil {
			return err
		}
		for _, id := range ids {
			err := t.dropKey(ctx, of, uid, id)
			if err == nil {
				err = t.publishChange(ctx, tenant.Change{Key: id})
			}
			if err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}
