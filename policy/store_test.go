package policy_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/storetest"
)

// memory is a store in a map. The zero value is ready to use.
type memory struct {
	mu          sync.Mutex
	rules       map[place]policy.Found
	unavailable bool
	asked       int
	gate        chan struct{} // optional; queries wait until it is closed
}

// Set and Delete make memory a storetest.Store.
func (m *memory) Set(_ context.Context, r policy.Rule) error {
	m.setFound(r.Tenant, r.Name, policy.Found{Present: true, Verdict: r.Verdict, Expires: r.Expires})
	return nil
}

func (m *memory) Delete(ctx context.Context, tenant string, n policy.Name) (bool, error) {
	found, err := m.Find(ctx, tenant, []policy.Name{n})
	m.remove(tenant, n)
	return err == nil && found[0].Present, err
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() storetest.Store { return &memory{} })
}

type place struct {
	tenant string
	name   policy.Name
}

var errUnavailable = errors.New("unavailable")

// Find returns the rules as they were when it was called, however long it takes.
func (m *memory) Find(ctx context.Context, tenant string, names []policy.Name) ([]policy.Found, error) {
	m.mu.Lock()
	gate, unavailable := m.gate, m.unavailable
	found := make([]policy.Found, len(names))
	for i, n := range names {
		found[i] = m.rules[place{tenant, n}]
	}
	m.asked++
	m.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if unavailable {
		return nil, errUnavailable
	}
	return found, nil
}

// setGate makes later queries wait until gate is closed. If gate is nil, they do not wait.
func (m *memory) setGate(gate chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gate = gate
}

func (m *memory) set(tenant string, n policy.Name, v call.Verdict) {
	m.setFound(tenant, n, policy.Found{Present: true, Verdict: v})
}

func (m *memory) setFound(tenant string, n policy.Name, f policy.Found) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rules == nil {
		m.rules = map[place]policy.Found{}
	}
	m.rules[place{tenant, n}] = f
}

func (m *memory) remove(tenant string, n policy.Name) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rules, place{tenant, n})
}

func (m *memory) questions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

func (m *memory) leave(unavailable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unavailable = unavailable
}

// said is a source with the same answer for every tool.
type said struct {
	verdict call.Verdict
	level   policy.Level
	state   policy.ToolState
}

func (said) DependsOnTool(string) bool { return true }

func (said) Schema(string, string) (*toolschema.Schema, bool) { return nil, false }

func (said) Credentials(string) *credentials.Names { return nil }

func (s said) Tool(string, string) (call.Verdict, policy.Level, policy.ToolState) {
	return s.verdict, s.level, s.state
}
