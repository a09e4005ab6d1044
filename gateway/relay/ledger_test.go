package relay

import (
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

// sharedAccount is an Account of several goroutines.
type sharedAccount struct{ held, limit atomic.Int64 }

func (a *sharedAccount) Reserve(n int64) bool {
	if a.held.Add(n) > a.limit.Load() {
		a.held.Add(-n)
		return false
	}
	return true
}

func (a *sharedAccount) Release(n int64) { a.held.Add(-n) }

// TestChargedCallAllocatesNothing: a call whose group has an account allocates nothing, and reserves and releases
// nothing in the steady state.
func TestChargedCallAllocatesNothing(t *testing.T) {
	b := newBare(t)
	account := &sharedAccount{}
	account.limit.Store(1 << 40)
	h := b.sh.relay.handler.(*bareHandler)
	h.group = b.sh.relay.NewGroup(nil, account)
	h.charge = true
	testAllocatesNothing(t, b)
	if held := account.held.Load(); held != groupStep {
		t.Errorf("%d bytes are reserved when there is no call", held)
	}
}

// TestLedger: a ledger reserves at most what its account permits, and releases the rest.
func TestLedger(t *testing.T) {
	t.Parallel()
	account := &sharedAccount{}
	account.limit.Store(100_000)
	l := ledger{account: account, step: groupStep}
	for _, step := range []struct {
		n    int64
		ok   bool
		held int64
	}{
		{1, true, 1}, {90_000, true, 90_001}, {9_999, true, 100_000}, {1, false, 100_000}, {-50_000, true, 50_000},
		{50_000, true, 100_000}, {-100_000, true, 0},
	} {
		if ok := l.add(step.n); ok != step.ok || l.held != step.held || account.held.Load() < l.held ||
			account.held.Load() > 100_000 {
			t.Errorf("%d more: %v, %d held, %d reserved", step.n, ok, l.held, account.held.Load())
		}
	}
	if held := account.held.Load(); held != 0 {
		t.Errorf("%d bytes are still reserved", held)
	}
}

// BenchmarkLedger measures the cost of accounting for a call that is the only one of its group.
func BenchmarkLedger(b *testing.B) {
	account, sh := &sharedAccount{}, &shard{}
	account.limit.Store(1 << 40)
	l := ledger{account: account, step: groupStep, keeps: true}
	b.ReportAllocs()
	for b.Loop() {
		l.add(3000)
		l.add(2000)
		l.add(-5000)
		sh.cool(&l)
	}
}

// TestKeptFieldsAreInput: the fields that a connection's decoder keeps are charged like other input, and dropped with
// it.
func TestKeptFieldsAreInput(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1, Config{})
	e := m.addClient()
	m.sh.enter()
	defer m.sh.leave()
	before := e.c.input()
	block := append([]byte{0x04, 0x80 | 60}, make([]byte, 60)...) // :path, of 96 zeros
	check.Must(t, e.c.dec.Decode(block, new(hpack.List), 1<<20))
	if n := e.c.input() - before; n < 150 || n > 1000 {
		t.Errorf("%d bytes are charged", n)
	}
	if e.c.forgetInput(); e.c.input() != 0 {
		t.Errorf("%d bytes are left", e.c.input())
	}
}
