package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/idempotency/storetest"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/testkit/check"
)

var errUnavailable = errors.New("unavailable")

// memory is a store that fails on demand.
type memory struct {
	mu          sync.Mutex
	all         map[string]stored // by tenant and key
	unavailable bool
	deaf        bool // fails to end claims, and forgets that it was to
	lost        bool // the response to the next claim is lost
	attempts    chan idempotency.State
	queries     int    // calls of Begin
	begin       func() // called by Begin first; may be nil
	renewed     func() // called after a renewal; may be nil
}

type stored struct {
	idempotency.Found
	token         string
	leased, until time.Time // ends of the lease and of the record
}

func newMemory() *memory {
	return &memory{all: map[string]stored{}, attempts: make(chan idempotency.State, 1000)}
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() idempotency.Store { return newMemory() })
}

// keyOf identifies the key of a claim.
func keyOf(c *idempotency.Claim) string { return c.Tenant + " " + c.ID }

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
	now, held := time.Now(), 0
	maps.DeleteFunc(m.all, func(_ string, f stored) bool { return !now.Before(f.until) })
	for key := range m.all {
		if strings.HasPrefix(key, c.Tenant+" ") {
			held++
		}
	}
	f, exists := m.all[keyOf(c)]
	switch {
	case exists && f.State != idempotency.Running:
		return f.Found, nil
	case exists && f.token == c.Token:
		f.State = idempotency.Mine
		return f.Found, nil
	case exists && now.Before(f.leased):
		f.Left = f.leased.Sub(now)
		return f.Found, nil
	case exists:
		f.State = idempotency.Unknown
		return f.Found, nil
	case c.Limit == 0:
		return idempotency.Found{State: idempotency.None}, nil
	case held >= c.Limit:
		return idempotency.Found{State: idempotency.Full}, nil
	}
	f = stored{idempotency.Found{State: idempotency.Running, Fingerprint: c.Fingerprint}, c.Token, now.Add(c.Lease),
		now.Add(c.TTL)}
	m.all[keyOf(c)] = f
	if m.lost {
		m.lost = false
		return idempotency.Found{}, errUnavailable
	}
	f.State = idempotency.Mine
	return f.Found, nil
}

func (m *memory) Renew(_ context.Context, c *idempotency.Claim) error {
	m.mu.Lock()
	if f := m.all[keyOf(c)]; f.token == c.Token {
		f.leased = time.Now().Add(c.Lease)
		m.all[keyOf(c)] = f
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
	f := m.all[keyOf(c)]
	switch {
	case m.unavailable || m.deaf:
		return errUnavailable
	case f.token != c.Token:
	case s == idempotency.None:
		delete(m.all, keyOf(c))
	default:
		f.State, f.Sealed = s, sealed
		m.all[keyOf(c)] = f
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
