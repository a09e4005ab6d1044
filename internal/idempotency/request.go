package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Request is a call that has a key.
type Request struct {
	// Whose key it is: the same key of another is another one.
	Tenant, User, Agent string
	UID                 string // another one for each tenant that has had its ID; "": not known

	Key string // 1 to 255 printable characters of ASCII; see Valid

	// What is asked: a repeat differs in none of these.
	Method, Capability, Tool, Session string
	Args                              []byte

	// Only, if it is not nil, is for a call that may not be carried out, but may have been: it
	// is told the first answer, or this.
	Only *call.Refusal
}

// maxKey is the longest key, in bytes.
const maxKey = 255

// Valid says whether a text may be a key.
func Valid(key string) bool {
	return key != "" && len(key) <= maxKey && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
}

// id is what the store knows a key by. It must outlive the keys that encrypt.
func (r *Request) id() string {
	h := sha256.New()
	write(h, "capgate idempotency key", r.Tenant, r.UID, r.User, r.Agent, r.Key)
	return hex.EncodeToString(h.Sum(nil))
}

// printer makes what requests are compared by: a keyed hash, as arguments can be guessed, after
// eight digits that tell which key it was.
type printer struct {
	keys  [][]byte
	names []string
}

func newPrinter(keys [][]byte) printer {
	var p printer
	for _, k := range keys {
		own := sum(k, "capgate idempotency print")
		p.keys = append(p.keys, own)
		p.names = append(p.names, hex.EncodeToString(sum(own, "name")[:4]))
	}
	return p
}

// print is what is kept with a claim.
func (p *printer) print(r *Request) string { return p.with(0, r) }

// same says whether a print is of the same request; not known for a key that is not there.
func (p *printer) same(print string, r *Request) (same, known bool) {
	for i, name := range p.names {
		if strings.HasPrefix(print, name) {
			return hmac.Equal([]byte(print), []byte(p.with(i, r))), true
		}
	}
	return false, false
}

func (p *printer) with(i int, r *Request) string {
	return p.names[i] + hex.EncodeToString(sum(p.keys[i], r.Method, r.Capability, r.Tool, r.Session, string(r.Args)))
}

func sum(key []byte, words ...string) []byte {
	h := hmac.New(sha256.New, key)
	write(h, words...)
	return h.Sum(nil)
}

// write writes words so that no two lists look the same.
func write(h hash.Hash, words ...string) {
	for _, w := range words {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(w)))
		h.Write(n[:])
		h.Write([]byte(w))
	}
}
