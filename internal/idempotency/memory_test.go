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
)

var errUnavailable = errors.New("unavailable")

// memory is a store that fails on demand. It knows no time.
type memory struct {
	mu          sync.Mutex
	all         map[string]idempotency.Found
	tokens      map[string]string
	unavailable bool
	deaf        bool // what it is told to end it fails at, and forgets
	attempts    chan idempotency.State
}

func newMemory() *memory {
	return &memory{
		all: map[string]idempotency.Found{}, tokens: map[string]string{}, attempts: make(chan idempotency.State, 1000),
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
	if m.unavailable {
		return idempotency.Found{}, errUnavailable
	}
	if f, there := m.all[c.ID]; there {
		return f, nil
	}
	switch {
	case c.Limit == 0:
		return idempotency.Found{State: idempotency.None}, nil
	case len(m.all) >= c.Limit:
		return idempotency.Found{State: idempotency.Full}, nil
	}
	m.all[c.ID] = idempotency.Found{State: idempotency.Running, Fingerprint: c.Fingerprint, Left: time.Hour}
	m.tokens[c.ID] = c.Token
	return idempotency.Found{State: idempotency.Mine, Fingerprint: c.Fingerprint}, nil
}

func (m *memory) Renew(context.Context, *idempotency.Claim) error { return nil }

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
	if err != nil {
		t.Fatal(err)
	}
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
