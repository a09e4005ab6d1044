package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/testkit/check"
)

var errUnavailable = errors.New("unavailable")

// memory is a store that fails on demand.
type memory struct {
	mu          sync.Mutex
	all         map[string]idempotency.Found
	tokens      map[string]string
	until       map[string]time.Time // end of the lease
	unavailable bool
	deaf        bool // what it is told to end it fails at, and forgets
	lost        bool // the answer to the next claim is
	attempts    chan idempotency.State
	queries     int    // calls of Begin
	begin       func() // is called by Begin first; nil: nothing is
	renewed     func() // is called after a renewal; nil: nothing is
}

func newMemory() *memory {
	return &memory{
		all: map[string]idempotency.Found{}, tokens: map[string]string{}, until: map[string]time.Time{},
		attempts: make(chan idempotency.State, 1000),
	}
}

func (m *memory) set(f func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

func (m *memory) Begin(_ context.Context, c *idempotency.Claim) (idempotency.Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if begin := m.begin; begin != nil {
		m.mu.Unlock()
		begin()
		m.mu.Lock()
	}
	m.queries++
	if m.unavailable {
		return idempotency.Found{}, errUnavailable
	}
	if f, there := m.all[c.ID]; there {
		if f.Left = time.Until(m.until[c.ID]); f.State == idempotency.Running && f.Left <= 0 {
			f.State = idempotency.Unknown
		}
		return f, nil
	}
	switch {
	case c.Limit == 0:
		return idempotency.Found{State: idempotency.None}, nil
	case len(m.all) >= c.Limit:
		return idempotency.Found{State: idempotency.Full}, nil
	}
	m.all[c.ID] = idempotency.Found{State: idempotency.Running, Fingerprint: c.Fingerprint}
	m.tokens[c.ID], m.until[c.ID] = c.Token, time.Now().Add(c.Lease)
	if m.lost {
		m.lost = false
		return idempotency.Found{}, errUnavailable
	}
	return idempotency.Found{State: idempotency.Mine, Fingerprint: c.Fingerprint}, nil
}

func (m *memory) Renew(_ context.Context, c *idempotency.Claim) error {
	m.mu.Lock()
	if m.tokens[c.ID] == c.Token {
		m.until[c.ID] = time.Now().Add(c.Lease)
	}
	renewed := m.renewed
	m.mu.Unlock()
	if renewed != nil {
		renewed()
	}
	return nil
}

func (m *memory) End(_ context.Context, c *idempotency.Claim, s idempotency.State, sealed []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts <- s
	switch {
	case m.unavailable || m.deaf:
		return errUnavailable
	case m.tokens[c.ID] != c.Token:
	case s == idempotency.None:
		delete(m.all, c.ID)
	default:
		m.all[c.ID] = idempotency.Found{State: s, Fingerprint: c.Fingerprint, Sealed: sealed}
	}
	return nil
}

func (m *memory) Watch(ctx context.Context, _ func(string), connected func()) {
	connected()
	<-ctx.Done()
}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, aead.KeyBytes) }

func service(t *testing.T, m *memory, o idempotency.Options) *idempotency.Service {
	t.Helper()
	if o.Keys == nil {
		o.Keys = [][]byte{key(1)}
	}
	k, err := idempotency.New(m, o)
	check.Must(t, err)
	t.Cleanup(k.Close)
	return k
}

func request(args string) *idempotency.Request {
	return &idempotency.Request{
		Tenant: "acme", User: "ann", Key: "k", Method: "Invoke", Capability: "mail", Tool: "send", Session: "s",
		Args: []byte(args),
	}
}

func says(answer string, how idempotency.Outcome) idempotency.Run {
	return func(context.Context) ([]byte, idempotency.Outcome) { return []byte(answer), how }
}
