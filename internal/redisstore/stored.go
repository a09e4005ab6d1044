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
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/toolset"
)

// storedKinds lists the kinds of stored objects. The table of keys has those of each.
var storedKinds = []stored.Kind{toolset.Kind}

// Stored holds the stored objects of a kind. It is a stored.Store.
type Stored struct {
	client
	kind stored.Kind
}

// Stored returns the store of the objects of a kind. It panics if storedKinds does not have the kind: the objects of
// deleted tenants would stay.
func (s *Store) Stored(k stored.Kind) *Stored {
	if s.signer.rejected[Kind(k.Name)] == nil {
		panic("storedKinds does not have " + k.Names)
	}
	return &Stored{s.client(Policy), k}
}

// storedText is the value of an object, after its version and the time of its change.
type storedText struct {
	UID  string `json:"uid,omitempty"`
	By   string `json:"by,omitempty"`
	Text string `json:"text"`
	Seal string `json:"seal,omitempty"` // of the field and the others
}

func (t *storedText) parts(field string) []string { return []string{field, t.UID, t.By, t.Text} }

func (s *Stored) kindKeys() []string {
	return s.keys([]string{s.kind.Names}, "{KIND}:all", "{KIND}:state", "{KIND}:changes")
}

// Write implements stored.Store.
func (s *Stored) Write(ctx context.Context, r *stored.Record, etag string) error {
	keys, field, text := s.kindKeys(), joinWords([]string{r.Tenant, r.Name}), []byte(nil)
	if len(r.Text) > 0 {
		value := storedText{UID: r.UID, By: r.By, Text: string(r.Text)}
		value.Seal = s.sign(Kind(s.kind.Name), keys[0], value.parts(field)...)
		var err error
		if text, err = json.Marshal(value); err != nil {
			return err
		}
	}
	most := s.kind.Limits
	version, err := s.run(ctx, setStoredScript, keys, rand.Text(), s.channel(s.kind.Names), field,
		joinWords([]string{r.Tenant, ""}), text, etag, most.Objects, most.Bytes, most.TenantObjects,
		most.TenantBytes).Int64()
	if err != nil {
		return err
	}
	switch version {
	case -1:
		return stored.ErrChanged
	case -2:
		return stored.ErrUnknown
	case -3:
		return stored.ErrFull
	}
	return nil
}

// Changed implements stored.Store. It sends plain commands, because a script may not read keys that are read-only.
func (s *Stored) Changed(ctx context.Context, since changefeed.Position) (news stored.Changes, err error) {
	keys := s.kindKeys()
	if news.Now, err = s.position(ctx, keys[1]); err != nil || news.Now == since {
		return news, err
	}
	var found map[string]string
	if news.Everything = !news.Now.Continues(since); news.Everything {
		found, err = fetch(ctx, s.client, redis.Cmdable.HGetAll, keys[0])
	} else {
		found, err = s.changedSince(ctx, keys, since.Version)
	}
	for field, text := range found {
		one, ok := s.decode(keys[0], field, text)
		if !ok {
			s.malformed(keys[0])
		}
		news.Records = append(news.Records, one)
	}
	return news, err
}

// changedSince returns the fields that have changed after a version; a deleted one has no text.
func (s *Stored) changedSince(ctx context.Context, keys []string, version uint64) (map[string]string, error) {
	fields, err := s.changedAfter(ctx, keys[2], version)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	found, r := map[string]string{}, s.values(ctx, keys[0], fields...)
	for _, field := range fields {
		found[field] = r.text()
	}
	return found, r.end()
}

// decode parses an object. One that is malformed, or has no valid signature, is a deleted one.
func (s *Stored) decode(key, field, text string) (*stored.Record, bool) {
	names, ok := splitWords(field, 2)
	if !ok {
		return &stored.Record{}, false
	}
	r := &stored.Record{Tenant: names[0], Name: names[1]}
	if text == "" {
		return r, true
	}
	version, rest, _ := strings.Cut(text, " ")
	at, rest, _ := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	var value storedText
	if err != nil || json.Unmarshal([]byte(rest), &value) != nil {
		return r, false
	}
	if s.verify(Kind(s.kind.Name), key, value.Seal, value.parts(field)...) {
		r.UID, r.By, r.Text = value.UID, value.By, []byte(value.Text)
		r.Etag, r.Updated = version, time.UnixMilli(ms)
	}
	return r, true
}

// Watch implements stored.Store.
func (s *Stored) Watch(ctx context.Context, changed func()) {
	s.subscribe(ctx, s.channel(s.kind.Names), func(string) { changed() }, changed)
}

// erase deletes the objects of a tenant.
func (s *Stored) erase(ctx context.Context, tenant string) error {
	fields, err := fetch(ctx, s.client, redis.Cmdable.HKeys, s.kindKeys()[0])
	for _, field := range fields {
		names, ok := splitWords(field, 2)
		if err == nil && ok && names[0] == tenant {
			err = s.Write(ctx, &stored.Record{Tenant: tenant, Name: names[1]}, "")
			if errors.Is(err, stored.ErrUnknown) { // deleted meanwhile
				err = nil
			}
		}
	}
	return err
}

var setStoredScript = newScript("stored_set")

var _ stored.Store = (*Stored)(nil)
