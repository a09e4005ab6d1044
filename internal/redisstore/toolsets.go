package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/toolset"
)

// Toolsets are the toolsets that operators have set. It is a toolset.Store.
type Toolsets struct{ client }

// Toolsets returns the store of toolsets.
func (s *Store) Toolsets() *Toolsets { return &Toolsets{s.client(Policy)} }

// toolsetText is the value of a toolset, after its version and the time of its change.
type toolsetText struct {
	UID  string `json:"uid,omitempty"`
	By   string `json:"by,omitempty"`
	Text string `json:"text"`
	Seal string `json:"seal,omitempty"` // of the field and the others
}

func (t *toolsetText) parts(field string) []string { return []string{field, t.UID, t.By, t.Text} }

func (t *Toolsets) toolsetKeys() []string {
	return t.keys(nil, "{toolsets}:all", "{toolsets}:state", "{toolsets}:changes")
}

// Write implements toolset.Store.
func (t *Toolsets) Write(ctx context.Context, r *toolset.Record, etag string) error {
	keys, field, text := t.toolsetKeys(), joinWords([]string{r.Tenant, r.Name}), []byte(nil)
	if len(r.Text) > 0 {
		value := toolsetText{UID: r.UID, By: r.By, Text: string(r.Text)}
		value.Seal = t.sign(ToolsetRecord, keys[0], value.parts(field)...)
		var err error
		if text, err = json.Marshal(value); err != nil {
			return err
		}
	}
	version, err := t.run(ctx, setToolsetScript, keys, rand.Text(), t.channel("toolsets"), field,
		joinWords([]string{r.Tenant, ""}), text, etag, toolset.MaxStored, toolset.MaxStoredBytes, toolset.MaxOfTenant,
		toolset.MaxTenantBytes).Int64()
	if err != nil {
		return err
	}
	switch version {
	case -1:
		return toolset.ErrChanged
	case -2:
		return toolset.ErrUnknown
	case -3:
		return toolset.ErrFull
	}
	return nil
}

// Changed implements toolset.Store. It sends plain commands, because a script may not read keys that are read-only.
func (t *Toolsets) Changed(ctx context.Context, since changefeed.Position) (news toolset.Changes, err error) {
	keys := t.toolsetKeys()
	var state []any
	err = t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		state, err = r.HMGet(ctx, keys[1], "epoch", "version").Result()
		return err
	})
	if err != nil {
		return news, err
	}
	values := valuesOf(state)
	news.Now.Epoch = values.text()
	news.Now.Version, _ = strconv.ParseUint(values.text(), 10, 64) // 0 if malformed
	if news.Now == since {
		return news, nil
	}
	var found map[string]string
	if news.Everything = !news.Now.Continues(since); news.Everything {
		err = t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
			found, err = r.HGetAll(ctx, keys[0]).Result()
			return err
		})
	} else {
		found, err = t.changedSince(ctx, keys, since.Version)
	}
	for field, text := range found {
		one, ok := t.decodeToolset(keys[0], field, text)
		if !ok {
			t.malformed(keys[0])
		}
		news.Records = append(news.Records, one)
	}
	return news, err
}

// changedSince returns the fields that have changed after a version; a deleted one has no text.
func (t *Toolsets) changedSince(ctx context.Context, keys []string, version uint64) (map[string]string, error) {
	found := map[string]string{}
	err := t.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		fields, err := r.ZRangeArgs(ctx, redis.ZRangeArgs{Key: keys[2], ByScore: true,
			Start: "(" + strconv.FormatUint(version, 10), Stop: "+inf"}).Result()
		if err != nil || len(fields) == 0 {
			return err
		}
		texts, err := r.HMGet(ctx, keys[0], fields...).Result()
		values := valuesOf(texts)
		for i := range texts {
			found[fields[i]] = values.text()
		}
		return err
	})
	return found, err
}

// decodeToolset parses a toolset. One that is malformed, or has no valid signature, is a deleted one.
func (t *Toolsets) decodeToolset(key, field, text string) (*toolset.Record, bool) {
	names, ok := splitWords(field, 2)
	if !ok {
		return &toolset.Record{}, false
	}
	r := &toolset.Record{Tenant: names[0], Name: names[1]}
	if text == "" {
		return r, true
	}
	version, rest, _ := strings.Cut(text, " ")
	at, rest, _ := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	var value toolsetText
	if err != nil || json.Unmarshal([]byte(rest), &value) != nil {
		return r, false
	}
	if t.verify(ToolsetRecord, key, value.Seal, value.parts(field)...) {
		r.UID, r.By, r.Text = value.UID, value.By, []byte(value.Text)
		r.Etag, r.Updated = version, time.UnixMilli(ms)
	}
	return r, true
}

// Watch implements toolset.Store.
func (t *Toolsets) Watch(ctx context.Context, changed func()) {
	t.subscribe(ctx, t.channel("toolsets"), func(string) { changed() }, changed)
}

// erase deletes the toolsets of a tenant.
func (t *Toolsets) erase(ctx context.Context, tenant string) error {
	var fields []string
	err := t.do(ctx, func(ctx context.Context, r redis.Cmdable) (err error) {
		fields, err = r.HKeys(ctx, t.key("{toolsets}:all")).Result()
		return err
	})
	for _, field := range fields {
		names, ok := splitWords(field, 2)
		if err == nil && ok && names[0] == tenant {
			err = t.Write(ctx, &toolset.Record{Tenant: tenant, Name: names[1]}, "")
			if errors.Is(err, toolset.ErrUnknown) { // deleted meanwhile
				err = nil
			}
		}
	}
	return err
}

var setToolsetScript = newScript("toolsets_set")

var _ toolset.Store = (*Toolsets)(nil)
