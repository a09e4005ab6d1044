package redisstore

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/tenant"
)

// keptKeys is the time for which the record of an ended key is kept.
const keptKeys = 30 * 24 * time.Hour

func (t *Tenants) apiKey(id string) string { return t.key(tag{"key", id}, "record") }

// FindKey implements tenant.Store.
func (t *Tenants) FindKey(ctx context.Context, id string) (*tenant.Key, error) {
	key := t.apiKey(id)
	fields, err := t.fields(ctx, key)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	if !t.verify(KeyRecord, key, fields["seal"], sortedFields(fields, laterOfKeys)...) {
		return nil, nil
	}
	k, ok := parseKey(id, fields)
	if !ok {
		t.malformed(key)
		return nil, nil
	}
	return k, nil
}

// CreateKey keeps a key, whose UID is its tenant's, or "" where that is in the file. tenant.ErrUnknown
// where the tenant is not there any more, tenant.ErrFull.
func (t *Tenants) CreateKey(ctx context.Context, k *tenant.Key) error {
	if err := t.addKey(ctx, k); err != nil {
		return err
	}
	return t.tell(ctx, tenant.Change{Key: k.ID})
}

// addKey writes a key before it is listed: what is listed and not there is over. A key that is
// there and not listed nobody has, for whoever was to get it got an error.
func (t *Tenants) addKey(ctx context.Context, k *tenant.Key) error {
	forgotten := ""
	if !k.Expires.IsZero() {
		forgotten = strconv.FormatInt(k.Expires.Add(keptKeys).UnixMilli(), 10)
	}
	at, err := t.run(ctx, writeKeyScript, []string{t.apiKey(k.ID)},
		append([]any{forgotten}, t.sealKey(k.ID, keyFields(k))...)...).Int64()
	if err != nil {
		return err
	}
	if at == 0 {
		return errors.New("there is a key with this id already")
	}
	k.Created = time.UnixMilli(at)
	said, err := t.run(ctx, addKeyScript, t.recordKeys(k.Tenant), k.ID, k.UID, tenant.MaxKeys).Int64()
	if err == nil && said == 1 {
		return nil
	}
	if dropped := t.dropKey(ctx, k.Tenant, k.UID, k.ID); err == nil {
		err = dropped
	}
	switch {
	case err != nil:
		return err
	case said == -1:
		return tenant.ErrTenantUnknown
	}
	return tenant.ErrStoreFull
}

// RotateKey makes next, which is to replace a key of its tenant that then holds only for grace.
// tenant.ErrKeyUnknown, tenant.ErrKeyOver, tenant.ErrKeyRotated, and what CreateKey says.
func (t *Tenants) RotateKey(ctx context.Context, id string, next *tenant.Key, grace time.Duration) error {
	if err := t.addKey(ctx, next); err != nil {
		return err
	}
	said, err := t.run(ctx, retireKeyScript, []string{t.apiKey(id)}, next.Tenant, next.ID, grace.Milliseconds(),
		keptKeys.Milliseconds()).Int64()
	if err != nil {
		return err // it may have been done, so next stays
	}
	if said == 1 {
		return errors.Join(t.tell(ctx, tenant.Change{Key: id}), t.tell(ctx, tenant.Change{Key: next.ID}))
	}
	if err := t.dropKey(ctx, next.Tenant, next.UID, next.ID); err != nil {
		return err
	}
	switch said {
	case -1:
		return tenant.ErrKeyUnknown
	case -2:
		return tenant.ErrKeyExpired
	}
	return tenant.ErrKeyRotated
}

// RevokeKey ends a key at once. It is idempotent. tenant.ErrKeyUnknown.
func (t *Tenants) RevokeKey(ctx context.Context, of, id string) error {
	said, err := t.run(ctx, revokeKeyScript, []string{t.apiKey(id)}, of, keptKeys.Milliseconds()).Int64()
	switch {
	case err != nil:
		return err
	case said == -1:
		return tenant.ErrKeyUnknown
	}
	return t.tell(ctx, tenant.Change{Key: id})
}

// ListKeys answers with a page of a tenant's keys, by id, and after what to go on, as
// ListTenants does. uid is the tenant's, "" for one of the file: those that an earlier tenant of its
// id has left are deleted.
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

// dropKey deletes a key if it is of the tenant with that uid, and takes it off the list.
func (t *Tenants) dropKey(ctx context.Context, of, uid, id string) error {
	gone, err := t.run(ctx, deleteKeyScript, []string{t.apiKey(id)}, of, uid).Int()
	if err != nil || gone == 0 {
		return err
	}
	return t.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		return r.ZRem(ctx, t.recordKeys(of)[1], id).Err()
	})
}

// deleteKeys deletes the keys of a tenant that ends. Replicas are told of each: else they would know it for a while, and
// take it for one of a tenant of the file that has this id next.
func (t *Tenants) deleteKeys(ctx context.Context, of, uid string) error {
	for after := ""; ; {
		ids, next, err := t.page(ctx, t.recordKeys(of)[1], after, 100)
		if err != nil {
			return err
		}
		for _, id := range ids {
			err := t.dropKey(ctx, of, uid, id)
			if err == nil {
				err = t.tell(ctx, tenant.Change{Key: id})
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
