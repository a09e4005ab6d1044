package relay

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

var (
	machineSeed  = flag.Int("machine.seed", -1, "run TestMachine with this seed alone")
	machineSeeds = flag.Int("machine.seeds", 200, "number of TestMachine's runs without the race detector")
)

// TestMachine lets random clients and backends talk through the relay's state machines: bytes come in pieces of any
// size, sockets accept any number of bytes, windows grow and shrink below zero, calls are canceled, refused, moved by
// GOAWAY, connections are cut, and time passes. These must hold: bytes and headers arrive in order and END_STREAM once,
// no window is overrun, every call ends, at its deadline at the latest, a call that may have run is not retried unless
// the Handler permits it, PING and SETTINGS are answered, and nothing is held at the end.
func TestMachine(t *testing.T) {
	t.Parallel()
	first, n := 0, *machineSeeds
	switch {
	case raceDetector:
		n = 15 // one goroutine does all the work; make test runs other tests beside it
	case testing.Short():
		n = 50
	}
	if *machineSeed >= 0 {
		first, n = *machineSeed, 1
	}
	slowed := 0
	for seed := first; seed < first+n; seed++ {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s, _ := runMachine(t, uint64(seed))
			slowed += s
		})
		if !ok {
			t.Logf("the run again: go test ./gateway/relay -run '^%s$' -machine.seed %d", t.Name(), seed)
			return
		}
	}
	if slowed == 0 && n > 1 {
		t.Error("nobody was too fast for a group")
	}
}

// TestMachineRepeats: in two runs of one seed the relay writes the same bytes.
func TestMachineRepeats(t *testing.T) {
	t.Parallel()
	seen := map[uint64]bool{}
	for seed := range uint64(10) {
		_, a := runMachine(t, seed)
		_, b := runMachine(t, seed)
		if a != b {
			t.Errorf("seed %d: two runs differ", seed)
		}
		seen[a] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d of 10 runs differ", len(seen))
	}
}

// runMachine returns how often a stream exceeded its group's rate, and the hash of the relay's output.
func runMachine(t *testing.T, seed uint64) (slowed int, trace uint64) {
	t.Helper()
	check.Bubble(t, func(t *testing.T) { slowed, trace = runMachineInBubble(t, seed) })
	return slowed, trace
}

func runMachineInBubble(t *testing.T, seed uint64) (slowed int, trace uint64) {
	cfg := Config{}
	if seed%3 == 1 {
		cfg.Memory.MaxBuffered = 150_000
	}
	if seed%4 == 2 {
		cfg.Forwarding.MaxReplay = 1000
	}
	account, clients := &testAccount{limit: 1 << 40}, &testAccount{limit: 1 << 40}
	if seed%7 == 5 {
		account.limit = 200_000
	}
	cfg.Memory.Client = func(p *Peer) Account {
		if p == nil {
			return nil
		}
		return clients
	}
	m := newMachine(t, seed, cfg)
	m.lenient = cfg.Memory.MaxBuffered != 0 || seed%7 == 5
	if seed%5 == 3 {
		m.maxOpen = 3
	}
	if seed%2 == 1 {
		m.group = m.sh.relay.NewGroup(func() { m.slowed++ }, account)
		m.group.SetRate([]int64{1, 1000, 1e6}[seed/2%3], false)
	}
	m.addClient()
	m.addClient()
	for i := range 1500 {
		m.step()
		m.settleDials()
		m.collect()
		if i%16 == 0 {
			m.balance()
		}
	}
	m.finish()
	m.verify()
	m.verifyAccounts(account, clients)
	return m.slowed, m.trace.Sum64()
}

// testAccount is an Account for one goroutine.
type testAccount struct{ limit, held int64 }

func (a *testAccount) Reserve(n int64) bool {
	if a.held+n > a.limit {
		return false
	}
	a.held += n
	return true
}

func (a *testAccount) Release(n int64) { a.held -= n }

// verifyAccounts checks that only the connections that still exist hold reserved bytes.
func (m *machine) verifyAccounts(account, clients *testAccount) {
	m.sh.enter()
	defer m.sh.leave()
	want, own := int64(0), int64(0)
	for _, l := range m.sh.warm {
		if l != nil {
			want += l.reserved
		}
	}
	for c := range m.sh.conns {
		own += c.own.reserved
		if c.ungrouped.held != 0 || c.own.held != c.charged {
			m.t.Errorf("a connection holds %d for streams, and %d of %d for itself", c.ungrouped.held, c.own.held,
				c.charged)
		}
	}
	if account.held != want || clients.held != own {
		m.t.Errorf("%d and %d bytes are still reserved, not %d and %d", account.held, clients.held, want, own)
	}
}

// serveGroup lets the time pass for which the group's streams wait.
func (m *machine) serveGroup() {
	if m.group == nil {
		return
	}
	m.sh.enter()
	defer m.sh.leave()
	m.group.due.Store(0)
	m.group.serve(m.sh)
}

func (m *machine) step() {
	switch m.rng.IntN(27) {
	case 0, 1:
		if len(m.calls) < 60 {
			if m.rng.IntN(3) == 0 {
				m.newLocal().openLocal()
			} else {
				m.newCall().open(m.livingClient())
			}
		}
	case 2, 3, 4, 5:
		if k := m.anyCall(); k != nil {
			k.sendRequest()
		}
	case 6, 7, 8, 9:
		if k := m.anyCall(); k != nil {
			k.sendResponse()
		}
	case 10, 11, 12, 13, 14, 15, 16:
		if e := m.anyEnd(); e != nil {
			m.deliver(e, m.piece())
		}
	case 17, 18:
		if e := m.anyEnd(); e != nil {
			m.updates(e)
		}
	case 19:
		if e := m.anyEnd(); e != nil {
			m.squeeze(e)
		}
	case 20:
		m.serveGroup()
	case 21:
		if k := m.anyCall(); k != nil && len(k.parked) > 0 {
			k.resume()
		}
	case 22, 23:
		if k := m.anyCall(); k != nil && k.local != nil {
			k.local.take(k)
		}
	case 24:
		m.pass(time.Duration(m.rng.Int64N(int64(400 * time.Millisecond))))
	default:
		m.mischief()
	}
}

// pass lets time pass, and checks that no call outlives its deadline.
func (m *machine) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
	m.sh.enter()
	defer m.sh.leave()
	for _, k := range m.calls {
		if k.deadline != 0 && k.done == 0 && m.sh.now > k.deadline+2*tick {
			m.t.Fatalf("call %d (%s) outlives its deadline by %v", k.num, k.mode, time.Duration(m.sh.now-k.deadline))
		}
	}
}

// livingClient returns a client that is connected.
func (m *machine) livingClient() *endpoint {
	e := m.clients[m.rng.IntN(len(m.clients))]
	if e.gone || e.leaves || e.c.closed || e.c.ending {
		e = m.addClient()
	}
	return e
}

func (m *machine) piece() int {
	switch m.rng.IntN(4) {
	case 0:
		return 1 + m.rng.IntN(12)
	case 1:
		return 1 + m.rng.IntN(3000)
	}
	return 1 << 20
}

func (m *machine) anyCall() *call {
	if len(m.calls) == 0 {
		return nil
	}
	return m.calls[m.rng.IntN(len(m.calls))]
}

// anyEnd returns a random endpoint of a living connection.
func (m *machine) anyEnd() *endpoint {
	list := m.clients
	if m.rng.IntN(2) == 0 && len(m.upstreams) > 0 {
		list = m.upstreams
	}
	if e := list[m.rng.IntN(len(list))]; !e.gone {
		return e
	}
	return nil
}

// updates credits some of the received bytes.
func (m *machine) updates(e *endpoint) {
	if e.unread > 0 {
		e.update(nil, 1+m.rng.IntN(e.unread))
	}
	for _, s := range e.sorted() {
		if s.unread > 0 && !s.gotEnd && m.rng.IntN(2) == 0 {
			e.update(s, 1+m.rng.IntN(s.unread))
		}
	}
}

// squeeze changes how much the relay may write to e's socket.
func (m *machine) squeeze(e *endpoint) {
	if e.link.room > 1<<30 && m.rng.IntN(2) == 0 {
		m.give(e, m.rng.IntN(2000)-e.link.room)
		return
	}
	if n := m.rng.IntN(60_000); m.rng.IntN(3) > 0 {
		m.give(e, n)
	} else {
		m.give(e, plenty-e.link.room)
	}
}
