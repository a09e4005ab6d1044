package token

import (
	"crypto/sha256"
	"sync"
	"time"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/capgate/capgate/internal/tenant"
)

// print stands for a token. It never leaves the process.
type print = [sha256.Size]byte

// printOf reads the token where it is: a copy would be 8 KiB.
func printOf(raw string) print { return sha256.Sum256(unsafe.Slice(unsafe.StringData(raw), len(raw))) }

// verified is what is known of a token whose signature is good. It is never changed.
type verified struct {
	who     tenant.Identity // without Settings, which may change
	expires time.Time       // the leeway included
	issuer  *issuer
	key     *key
}

// holds says whether issuer and key are still those of the configuration and of the issuer.
func (v *verified) holds() bool { return !v.issuer.gone.Load() && !v.key.gone.Load() }

// shares are the parts of a cache, each with a lock of its own.
const shares = 16

// cache has the tokens that were verified: those that were shown last, of bounded number.
type cache [shares]share

type share struct {
	mu   sync.Mutex
	list *simplelru.LRU[print, *verified]
}

func newCache(size int) (*cache, error) {
	c := &cache{}
	for i := range c {
		list, err := simplelru.NewLRU[print, *verified](max(size/shares, 1), nil)
		if err != nil {
			return nil, err
		}
		c[i].list = list
	}
	return c, nil
}

func (c *cache) share(p *print) *share { return &c[p[0]%shares] }

// get finds what is known of a token, if that holds.
func (c *cache) get(p *print) *verified {
	s := c.share(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.list.Get(*p)
	if !ok {
		return nil
	}
	if !v.holds() {
		s.list.Remove(*p)
		return nil
	}
	return v
}

func (c *cache) put(p *print, v *verified) {
	s := c.share(p)
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
