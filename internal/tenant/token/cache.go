package token

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/capgate/capgate/internal/tenant"
)

// tokenHash stands for a token. It never leaves the process.
type tokenHash = [sha256.Size]byte

// hashOf hashes the token in place: a copy would be 8 KiB.
func hashOf(raw string) tokenHash {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(raw), len(raw)))
}

// verified is the result of a token with a valid signature. It is immutable.
type verified struct {
	who     tenant.Identity // without Settings, which may change
	expires time.Time       // the leeway included
	issuer  *issuer
	key     *key
	by      *Verifier
}

// valid reports whether issuer and key are still in force.
func (v *verified) valid() bool { return !v.issuer.gone.Load() && !v.key.gone.Load() }

// StillValid implements tenant.Validity.
func (v *verified) StillValid(ctx context.Context) bool {
	return v.valid() && v.by.options.Now().Before(v.expires) && tenant.StillEnabled(ctx, v.by.tenants, v.who.Tenant)
}

// shards is the number of parts of a cache, each with a lock of its own.
const shards = 16

// cache has the most recently used verified tokens, of a bounded number.
type cache [shards]shard

type shard struct {
	mu   sync.Mutex
	list *simplelru.LRU[tokenHash, *verified]
}

func newCache(size int) (*cache, error) {
	c := &cache{}
	for i := range c {
		list, err := simplelru.NewLRU[tokenHash, *verified](max(size/shards, 1), nil)
		if err != nil {
			return nil, err
		}
		c[i].list = list
	}
	return c, nil
}

func (c *cache) shard(p *tokenHash) *shard { return &c[p[0]%shards] }

// get returns a token's result, if it is valid.
func (c *cache) get(p *tokenHash) *verified {
	s := c.shard(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.list.Get(*p)
	if !ok {
		return nil
	}
	if !v.valid() {
		s.list.Remove(*p)
		return nil
	}
	return v
}

func (c *cache) put(p *tokenHash, v *verified) {
	s := c.shard(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.Add(*p, v)
}

func (c *cache) len() (n int) {
	for i := range c {
		s := &c[i]
		s.mu.Lock()
		n += s.list.Len()
		s.mu.Unlock()
	}
	return n
}
