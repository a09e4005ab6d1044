package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"
)

// Kind is a kind of record that grants something.
type Kind string

// The kinds besides those of stored objects.
const (
	ApprovalRecord Kind = "approval"
	ApprovalAnswer Kind = "answer" // also answers for a session
	RuleRecord     Kind = "rule"
	TenantRecord   Kind = "tenant"
	KeyRecord      Kind = "key"
	ToolRecord     Kind = "tool" // the accepted hash of a tool
)

// Kinds lists all kinds.
func Kinds() []Kind {
	all := []Kind{ApprovalRecord, ApprovalAnswer, RuleRecord, TenantRecord, KeyRecord, ToolRecord}
	for _, k := range storedKinds {
		all = append(all, Kind(k.Name))
	}
	return all
}

// signer authenticates records in Redis with keys that Redis does not have. A signature is bound to the kind of the
// record, to its Redis key and to its fields, so it is valid nowhere else. It does not detect that a record was
// deleted, or replaced by an earlier version of itself.
type signer struct {
	keys     [][]byte // the first one signs, all verify; none: no signatures
	unsigned bool     // records without a signature are accepted
	rejected map[Kind]*rejections
}

// rejections are the records of a kind without a valid signature.
type rejections struct {
	n          atomic.Int64
	lastLogged atomic.Int64 // time of the last log line, ns
}

func newSigner(cfg *Config) signer {
	s := signer{keys: cfg.StoreKeys, unsigned: cfg.AcceptUnsigned, rejected: map[Kind]*rejections{}}
	for _, k := range Kinds() {
		s.rejected[k] = new(rejections)
	}
	return s
}

// on reports whether records are signed.
func (s *signer) on() bool { return len(s.keys) > 0 }

// AcceptsUnsigned reports whether records without a signature are accepted although there are keys.
func (s *Store) AcceptsUnsigned() bool { return s.signer.on() && s.signer.unsigned }

// sign returns the signature of a record, or "" without a key.
func (c client) sign(kind Kind, key string, parts ...string) string {
	if s := &c.store.signer; s.on() {
		return signatureOf(s.keys[0], kind, key, parts)
	}
	return ""
}

// seal adds the signature of a record to its fields.
func (c client) seal(fields []any, kind Kind, key string, parts ...string) []any {
	if seal := c.sign(kind, key, parts...); seal != "" {
		fields = append(fields, "seal", seal)
	}
	return fields
}

// verify reports whether a record has a valid signature. A record without one is counted, and logged at most once a
// second; its reader treats it as absent.
func (c client) verify(kind Kind, key, seal string, parts ...string) bool {
	s := &c.store.signer
	if !s.on() || seal == "" && s.unsigned {
		return true
	}
	for _, k := range s.keys {
		if hmac.Equal([]byte(seal), []byte(signatureOf(k, kind, key, parts))) {
			return true
		}
	}
	r, now := s.rejected[kind], time.Now().UnixNano()
	r.n.Add(1)
	if last := r.lastLogged.Load(); now-last > int64(time.Second) && r.lastLogged.CompareAndSwap(last, now) {
		c.store.cfg.Log.Warn("a record in redis is not signed by a key of secret_file; it counts as absent", "kind",
			string(kind), "key", key)
	}
	return false
}

// signatureOf is an HMAC-SHA256 over length-prefixed strings.
func signatureOf(secret []byte, kind Kind, key string, parts []string) string {
	mac := hmac.New(sha256.New, secret)
	for _, word := range slices.Concat([]string{"capgate record 1", string(kind), key}, parts) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(word))))
		mac.Write([]byte(word))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sortedFields returns the names and values of a hash in the order of the names, except the given ones: the signed
// parts of the record.
func sortedFields(fields map[string]string, but map[string]bool) []string {
	var names, parts []string
	for name := range fields {
		if !but[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		parts = append(parts, name, fields[name])
	}
	return parts
}
