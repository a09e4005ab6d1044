package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// Request is a call with a key.
type Request struct {
	// The owner of the key: equal keys of other owners are other keys.
	Tenant, User, Agent string
	UID                 string // unique for each tenant that had this ID; "": unknown

	Key string // 1 to 255 printable ASCII characters; see Valid

	// The content of the request: a repeat must not differ in it.
	Method, Capability, Tool, Session string
	Args                              []byte

	// Only, if it is not nil, marks a call that must not be executed, but may have been: it gets the
	// stored response, or this refusal.
	Only *call.Refusal
}

// maxKey is the longest key, in bytes.
const maxKey = 255

// Valid reports whether a text can be a key.
func Valid(key string) bool {
	return key != "" && len(key) <= maxKey && !strings.ContainsFunc(key, func(r rune) bool {
		return r < ' ' || r > '~'
	})
}

// id returns the name of a key in the store. It does not depend on the encryption keys.
func (r *Request) id() string {
	h := sha256.New()
	write(h, "capgate idempotency key", r.Tenant, r.UID, r.User, r.Agent, r.Key)
	return hex.EncodeToString(h.Sum(nil))
}

// fingerprinter makes fingerprints of requests: a keyed hash, as arguments can be guessed, after eight digits that
// identify the key.
type fingerprinter struct {
	keys  [][]byte
	names []string
}

func newFingerprinter(keys [][]byte) fingerprinter {
	p := fingerprinter{keys: sharedkey.Derive(keys, "fingerprints")}
	for _, key := range p.keys {
		p.names = append(p.names, hex.EncodeToString(sum(key, "name")[:4]))
	}
	return p
}

// fingerprint returns the fingerprint that is stored with a claim.
func (p *fingerprinter) fingerprint(r *Request) string { return p.with(0, r) }

// fingerprints returns the fingerprints by each of the keys, which replicas store with a claim. The first one equals
// that of fingerprint.
func (p *fingerprinter) fingerprints(r *Request) []string {
	all := make([]string, len(p.names))
	for i := range all {
		all[i] = p.with(i, r)
	}
	return all
}

// same compares a fingerprint with a request; known is false if its key is not configured.
func (p *fingerprinter) same(print string, r *Request) (same, known bool) {
	for i, name := range p.names {
		if strings.HasPrefix(print, name) {
			return hmac.Equal([]byte(print), []byte(p.with(i, r))), true
		}
	}
	return false, false
}

func (p *fingerprinter) with(i int, r *Request) string {
	return p.names[i] + hex.EncodeToString(sum(p.keys[i], r.Method, r.Capability, r.Tool, r.Session, string(r.Args)))
}

func sum(key []byte, words ...string) []byte {
	h := hmac.New(sha256.New, key)
	write(h, words...)
	return h.Sum(nil)
}

// write writes an unambiguous encoding of a list of strings.
func write(h hash.Hash, words ...string) {
	for _, w := range words {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(w)))
		h.Write(n[:])
		h.Write([]byte(w))
	}
}
