package redisstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/policy/catalog"
)

// versionsTTL is the lifetime of the versions of a capability that no replica has.
const versionsTTL = 90 * 24 * time.Hour

// Versions stores the accepted versions of tools. It is a catalog.Versions. Readers must compare the hashes.
type Versions struct{ client }

// Versions returns the store of tools' versions.
func (s *Store) Versions() *Versions { return &Versions{s.client(Policy)} }

// versionText is a version as it is stored.
type versionText struct {
	Description string `json:"description"`
	Schema      []byte `json:"schema"`
	Output      []byte `json:"output,omitempty"`
	Extras      []byte `json:"extras,omitempty"`
}

func (v *Versions) versionsKey(capability string) string {
	return v.key("{catalog}:versions:CAP", capability)
}

// Save implements catalog.Versions.
func (v *Versions) Save(ctx context.Context, capability string, versions map[string]catalog.Version) error {
	fields := make([]any, 0, 2*len(versions))
	for tool := range versions {
		v := versions[tool]
		text, err := json.Marshal(versionText{v.Description, v.Schema, v.Output, v.Extras})
		if err != nil {
			return err
		}
		fields = append(fields, tool, text)
	}
	return v.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HSet(ctx, v.versionsKey(capability), fields...)
			pipe.PExpire(ctx, v.versionsKey(capability), versionsTTL)
			return nil
		})
		return err
	})
}

// Load implements catalog.Versions.
func (v *Versions) Load(ctx context.Context, capability string, tools []string) (map[string]catalog.Version, error) {
	all, r := map[string]catalog.Version{}, v.values(ctx, v.versionsKey(capability), tools...)
	for _, tool := range tools {
		text := r.text()
		if text == "" {
			continue
		}
		var one versionText
		if json.Unmarshal([]byte(text), &one) != nil {
			v.malformed(v.versionsKey(capability))
			continue
		}
		all[tool] = catalog.Version{Description: one.Description, Schema: one.Schema, Output: one.Output,
			Extras: one.Extras}
	}
	return all, r.end()
}

var _ catalog.Versions = (*Versions)(nil)
