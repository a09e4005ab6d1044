package turns_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/gateway/engine/turns/storetest"
	"github.com/capgate/capgate/internal/testkit/check"
)

var errGone = errors.New("gone")

// memory is a store of one engine that fails on demand. It knows no time, and no tenants.
type memory struct {
	mu          sync.Mutex
	line        []string // the first has the turn
	agent       string
	away        bool
	maybeLost   bool // the last request was
	asked       chan string
	notify      func(id string)
	reconnected func()
	ready       chan struct{}
}

func newMemory() *memory {
	return &memory{asked: make(chan string, 1000), ready: make(chan struct{})}
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() turns.Store { return newMemory() })
}

// step makes a step of the store, unless that is away.
func (m *memory) step(what string, f func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case m.asked <- what:
	default: // not observed
	}
	if m.away {
		return errGone
	}
	f()
	return nil
}

func (m *memory) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *memory) Wait(_ context.Context, t *turns.Ticket) (s turns.Status, err error) {
	err = m.step("wait", func() {
		m.maybeLost = t.MaybeLost
		at := slices.Index(m.line, t.ID)
		switch {
		case at < 0 && len(m.line) > t.MaxWaiting:
			s.State = turns.Full
			return
		case at < 0:
			m.line, at = append(m.line, t.ID), len(m.line)
		}
		s = turns.Status{Seq: 1, Left: time.Hour}
		if at == 0 {
			s.State = turns.Granted
		}
	})
	return s, err
}

func (m *memory) Hold(context.Context, *turns.Ticket) error { return m.step("hold", func() {}) }

func (m *memory) Leave(_ context.Context, t *turns.Ticket, _ bool) error {
	return m.step("leave", func() {
		m.line = slices.DeleteFunc(m.line, func(id string) bool { return id == t.ID })
		if len(m.line) > 0 && m.notify != nil {
			m.notify(m.line[0])
		}
	})
}

func (m *memory) Acquire(_ context.Context, c *turns.LeaseRequest) (ok bool, err error) {
	err = m.step("seize", func() {
		if ok = m.agent == "" || m.agent == c.ID || c.Takeover; ok {
			old := m.agent
			if m.agent = c.ID; m.notify != nil && old != "" && old != c.ID {
				m.notify(old)
			}
		}
	})
	return ok, err
}

func (m *memory) Release(_ context.Context, c *turns.LeaseRequest) error {
	return m.step("yield", func() {
		if m.agent == c.ID {
			m.agent = ""
		}
	})
}

func (m *memory) Watch(ctx context.Context, notify func(string), connected func()) {
	m.set(func() { m.notify, m.reconnected = notify, connected })
	connected()
	close(m.ready)
	<-ctx.Done()
}

// expect waits for a request to the store.
func (m *memory) expect(t *testing.T, what string) {
	t.Helper()
	for check.Received(t, m.asked, "the store to be asked to "+what) != what {
	}
}

// manager follows the store until the test ends.
func manager(t *testing.T, m *memory, o turns.Options) *turns.Manager {
	t.Helper()
	k := turns.New(m, o)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	check.Received(t, m.ready, "the readiness")
	t.Cleanup(func() {
		k.Close()
		stop()
		check.Ended(t, &running, "the background work to end")
	})
	return k
}
