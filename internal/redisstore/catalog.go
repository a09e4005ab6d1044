package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
)

// Catalog is the shared state of capabilities' tools. It is a catalog.Store.
type Catalog struct{ client }

// Catalog returns the store of the catalog.
func (s *Store) Catalog() *Catalog { return &Catalog{s.client(Policy)} }

// Watch implements catalog.Store.
func (c *Catalog) Watch(ctx context.Context, changed func()) {
	c.subscribe(ctx, c.channel("catalog"), func(string) { changed() }, changed)
}

// Changed implements catalog.Store.
func (c *Catalog) Changed(ctx context.Context, since changefeed.Position) (news catalog.Changes, err error) {
	if news.Now, err = c.position(ctx, c.key("{catalog}:state")); err != nil || news.Now == since {
		return news, err
	}
	if news.Everything = !news.Now.Continues(since); !news.Everything {
		news.Capabilities, err = c.changedAfter(ctx, c.key("{catalog}:changes"), since.Version)
	}
	return news, err
}

// Read implements catalog.Store.
func (c *Catalog) Read(ctx context.Context, wants []catalog.ReadRequest) ([]catalog.Record, error) {
	about, accepted := make([]*redis.MapStringStringCmd, len(wants)), make([]*redis.MapStringStringCmd, len(wants))
	err := c.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, w := range wants {
				about[i] = pipe.HGetAll(ctx, c.key("{catalog}:about:CAP", w.Capability))
				accepted[i] = pipe.HGetAll(ctx, c.key("{catalog}:accepted:CAP", w.Capability))
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]catalog.Record, len(wants))
	for i, w := range wants {
		all[i] = c.decodeRecord(w.Capability, about[i].Val(), accepted[i].Val())
		if sum := all[i].Sum; sum != "" && sum != w.Sum {
			if all[i].Set, err = c.set(ctx, w.Capability, sum); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// decodeRecord parses the hashes of a capability. A malformed accepted hash matches no tool.
func (c *Catalog) decodeRecord(capability string, about, accepted map[string]string) catalog.Record {
	s := catalog.Record{Sum: about["sum"], Accepted: make(map[string]toolschema.Hash, len(accepted)),
		Removed: map[string]bool{}}
	s.Last = catalog.DiscoveryStatus{Succeeded: c.parseTime(about["ok"]), Failed: c.parseTime(about["failed"]),
		Error: about["error"], LeftOut: about["left"]}
	for tool, text := range accepted {
		text, absent := strings.CutSuffix(text, absentTool)
		if absent {
			s.Removed[tool] = true
		}
		text, seal, _ := strings.Cut(text, " ")
		hash, ok := toolschema.ParseHash(text)
		if ok = ok && c.verify(ToolRecord, c.key("{catalog}:accepted:CAP", capability), seal, tool, text); !ok {
			c.malformed(c.key("{catalog}:accepted:CAP", capability))
			hash = toolschema.Hash{}
		}
		s.Accepted[tool] = hash
	}
	return s
}

func (c *Catalog) parseTime(text string) time.Time {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// set reads a discovered set, or nil if it has changed meanwhile: another event follows.
func (c *Catalog) set(ctx context.Context, capability, sum string) ([]byte, error) {
	text, err := fetch(ctx, c.client, redis.Cmdable.Get, c.key("{catalog}:set:CAP", capability))
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	set := []byte(text)
	if got := sha256.Sum256(set); hex.EncodeToString(got[:]) != sum {
		c.malformed(c.key("{catalog}:set:CAP", capability))
		return nil, nil
	}
	return set, nil
}

// absentTool ends the accepted hash of an absent tool, as changeScript writes it.
const absentTool = " gone"

var changeScript = newScript("catalog_change")

// Write implements catalog.Store.
func (c *Catalog) Write(ctx context.Context, change catalog.Change) error {
	id := change.Capability
	keys := c.keys([]string{id}, "{catalog}:state", "{catalog}:changes", "{catalog}:accepted:CAP",
		"{catalog}:about:CAP", "{catalog}:set:CAP", "{catalog}:turns")
	args := []any{rand.Text(), c.channel("catalog"), id, change.Lease, change.Sum, change.Set, change.Error,
		change.LeftOut, len(change.Removed)}
	for _, tool := range change.Removed {
		args = append(args, tool)
	}
	for tool, hash := range change.Tools {
		args = append(args, tool, c.accepted(id, tool, hash))
	}
	done, err := c.run(ctx, changeScript, keys, args...).Int()
	if err == nil && done < 0 {
		return catalog.ErrLeaseLost
	}
	return err
}

var acceptScript = newScript("catalog_accept")

// Accept implements catalog.Store.
func (c *Catalog) Accept(ctx context.Context, capability, tool string, hash toolschema.Hash) error {
	keys := c.keys([]string{capability}, "{catalog}:state", "{catalog}:changes", "{catalog}:accepted:CAP")
	return c.run(ctx, acceptScript, keys, rand.Text(), c.channel("catalog"), capability, tool,
		c.accepted(capability, tool, hash)).Err()
}

// accepted is the stored form of an accepted hash, with its signature. A hash without a valid signature matches no
// tool. It is not treated as absent, since then the next tool of that name would be accepted.
func (c *Catalog) accepted(capability, tool string, hash toolschema.Hash) string {
	text := hash.String()
	if seal := c.sign(ToolRecord, c.key("{catalog}:accepted:CAP", capability), tool, text); seal != "" {
		text += " " + seal
	}
	return text
}

var acquireLeaseScript = newScript("catalog_lease")

// AcquireLease implements catalog.Store.
func (c *Catalog) AcquireLease(
	ctx context.Context, capability string, lease, within time.Duration,
) (catalog.Lease, error) {
	id := rand.Text()
	r := c.read(ctx, acquireLeaseScript, []string{c.key("{catalog}:turns")}, capability, id, lease.Milliseconds(),
		within.Milliseconds())
	wait, why := r.millis(), r.int()
	if err := r.end(); err != nil || why != 0 {
		return catalog.Lease{Busy: why == 1, Wait: wait}, err
	}
	return catalog.Lease{ID: id}, nil
}

var _ catalog.Store = (*Catalog)(nil)
