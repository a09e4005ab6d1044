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
type Kind int

// The kinds.
const (
	ApprovalRecord Kind = iota
	ApprovalAnswer      // that of a session among them
	RuleRecord
	TenantRecord
	KeyRecord
	SigningRecord
	ToolRecord // what was accepted of a tool
	kinds
)

func (k Kind) String() string {
	return [kinds]string{"approval", "answer", "rule", "tenant", "key", "signing", "tool"}[k]
}

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{ApprovalRecord, ApprovalAnswer, RuleRecord, TenantRecord, KeyRecord, SigningRecord, ToolRecord}
}

// seals authenticate what Redis keeps, by keys that Redis does not have. A record is bound to its kind, to the Redis key that it
// is kept under, and to its fields, so that it is good nowhere else. That a record is deleted, or an earlier one of
// the same key is put back, does not show.
type seals struct {
	keys     [][]byte // the first one signs, all verify; none: no signatures
	unsigned bool     // records without a signature are accepted
	rejected [kinds]atomic.Int64
	told     [kinds]atomic.Int64 // time of the last log line, ns
}

// on reports whether records are signed.
func (s *seals) on() bool { return len(s.keys) > 0 }

// TakesUnsigned reports whether unsigned records are accepted, although there are keys.
func (s *Store) TakesUnsigned() bool { return s.seals.on() && s.seals.unsigned }

// sign returns the signature of a record, or "" without a key.
func (c client) sign(kind Kind, key string, parts ...string) string {
	if s := &c.store.seals; s.on() {
		return sealOf(s.keys[0], kind, key, parts)
	}
	return ""
}

// verify says whether a record is what somebody with a key has written. One that is not is counted, and logged once a
// second at most; whoever read it goes on as if it were not there.
func (c client) verify(kind Kind, key, seal string, parts ...string) bool {
	s := &c.store.seals
	if !s.on() || seal == "" && s.unsigned {
		return true
	}
	for _, k := range s.keys {
		if hmac.Equal([]byte(seal), []byte(sealOf(k, kind, key, parts))) {
			return true
		}
	}
	s.rejected[kind].Add(1)
	now := time.Now().UnixNano()
	if last := s.told[kind].Load(); now-last > int64(time.Second) && s.told[kind].CompareAndSwap(last, now) {
		c.store.cfg.Log.Warn("a record in redis is not signed by a key of store_key_file; it counts as absent", "kind",
			kind.String(), "key", key)
	}
	return false
}

// sealOf is an HMAC-SHA256 over length-prefixed strings.
func sealOf(secret []byte, kind Kind, key string, parts []string) string {
	mac := hmac.New(sha256.New, secret)
	for _, word := range slices.Concat([]string{"capgate record 1", kind.String(), key}, parts) {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(word))))
		mac.Write([]byte(word))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sortedFields are the fields and values of a hash that a seal is about, by name: all but some.
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

// fieldsOf are names and values, as a command has them.
func fieldsOf(args []any) map[string]string {
	fields := make(map[string]string, len(args)/2)
	for i := 0; i+1 < len(args); i += 2 {
		name, _ := args[i].(string)
		switch v := args[i+1].(type) {
		case string:
			fields[name] = v
		case []byte:
			fields[name] = string(v)
		}
	}
	return fields
}
