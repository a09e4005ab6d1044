package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/router/affinity"
)

// Sessions are the backends of sessions and artifacts. It is an affinity.Store.
type Sessions struct {
	client
	name string // the replica's, as the maker of pins
}

// Sessions returns the store of sessions.
func (s *Store) Sessions() *Sessions { return &Sessions{s.client(Session), rand.Text()} }

// Unavailable implements affinity.Store.
func (s *Sessions) Unavailable() bool { return s.store.Unavailable() }

var pinScript = newScript("sessions_pin")

// Bind implements affinity.Store.
func (s *Sessions) Bind(ctx context.Context, bindings []affinity.Binding) ([]affinity.BindResult, error) {
	keys := make([]string, len(bindings))
	for i := range bindings {
		keys[i] = s.pinKey(bindings[i].Session)
	}
	if len(bindings) == 1 { // a call may be waiting
		args := append(s.pinArgs(bindings[0]), "", "", "")
		b, err := s.decodePin(keys[0], s.run(ctx, pinScript, keys, args...))
		return []affinity.BindResult{b}, err
	}
	answers := make([]*redis.Cmd, len(bindings))
	err := s.do(ctx, func(ctx context.Context, r redis.Cmdable) error {
		_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, b := range bindings {
				answers[i] = pinScript.lua.Eval(ctx, pipe, keys[i:i+1], append(s.pinArgs(b), "", "", "")...)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]affinity.BindResult, len(bindings))
	for i, answer := range answers {
		if all[i], err = s.decodePin(keys[i], answer); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Move implements affinity.Store.
func (s *Sessions) Move(ctx context.Context, to affinity.Binding, from affinity.Pin) (affinity.BindResult, error) {
	message, err := json.Marshal(moveEvent{to.Session, to.Pin})
	if err != nil {
		return affinity.BindResult{}, err
	}
	key := s.pinKey(to.Session)
	args := append(s.pinArgs(to), strconv.FormatUint(from.Moves, 10)+" "+from.Addr, s.channel("sessions"),
		string(message))
	return s.decodePin(key, s.run(ctx, pinScript, []string{key}, args...))
}

// moveEvent is the event of a moveEvent session.
type moveEvent struct {
	Session affinity.Session
	Pin     affinity.Pin
}

// Watch implements affinity.Store.
func (s *Sessions) Watch(ctx context.Context, changed func(affinity.Session, affinity.Pin), missed func()) {
	channel := s.channel("sessions")
	s.subscribe(ctx, channel, func(message string) {
		var m moveEvent
		if json.Unmarshal([]byte(message), &m) != nil {
			s.malformed(channel)
			return
		}
		changed(m.Session, m.Pin)
	}, missed)
}

func (s *Sessions) pinArgs(b affinity.Binding) []any {
	return []any{strconv.FormatUint(b.Pin.Moves, 10), b.Pin.Addr, s.name, b.TTL.Milliseconds(), b.Unused}
}

// maxAge bounds the reported age of a pin, in ms: some years.
const maxAge = 1 << 38

// decodePin parses the answer of pinScript.
func (s *Sessions) decodePin(key string, answer *redis.Cmd) (affinity.BindResult, error) {
	r := replyOf(answer)
	moves := r.int() // at most 15 digits
	b := affinity.BindResult{Pin: affinity.Pin{Moves: uint64(moves), Addr: r.text()}}
	age, _ := strconv.ParseInt(r.text(), 10, 64) // 0 if malformed
	age = min(max(age, 0), maxAge)               // the clocks of two masters may differ
	b.Age, b.New = time.Duration(age)*time.Millisecond, r.int() == 1
	if r.int() != 0 {
		s.malformed(key)
	}
	b.Users = map[string]affinity.Users{"none": affinity.NoGateway, "this": affinity.ThisGateway}[r.text()]
	return b, r.end()
}

func (s *Sessions) pinKey(n affinity.Session) string {
	return s.key("{TENANT:pin:CAP:SUM}", n.Tenant, n.Capability, digest(n.ID))
}

// digest returns a fixed-length name of a foreign id, which does not reveal it.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
