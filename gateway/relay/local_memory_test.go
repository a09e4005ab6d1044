package relay_test

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
)

// budget is an Account with a limit that records its maximum.
type budget struct {
	limit      int64
	held, most atomic.Int64
}

func (b *budget) Reserve(n int64) bool {
	held := b.held.Add(n)
	if held > b.limit {
		b.held.Add(-n)
		return false
	}
	for most := b.most.Load(); held > most && !b.most.CompareAndSwap(most, held); most = b.most.Load() {
	}
	return true
}

func (b *budget) Release(n int64) { b.held.Add(-n) }

// TestLocalMemory: bytes buffered for a caller in the process are charged to its group. A call that exceeds the group's
// memory ends. All memory is released.
func TestLocalMemory(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"a message", "unread messages"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			own := &budget{limit: 1 << 30}
			tenant := &budget{limit: 700_000}
			w := newRelayed(t, relay.Config{
				Shards: 1,
				Memory: relay.Memory{Client: func(p *relay.Peer) relay.Account {
					if p == nil {
						return nil
					}
					return own
				}},
			})
			group := w.NewGroup(nil, tenant)
			w.h.onHeaders(func(s *relay.Stream) {
				if !s.Charge(group) {
					s.Refuse(relay.Status{Code: 8})
					return
				}
				s.Forward(w.h.target())
			})
			size, fails := 300_000, 1<<20
			if kind == "unread messages" {
				size, fails = 1000, 0
			}
			s := w.open(t, "Count")
			check.Must(t, s.Send(relay.Message{Data: fmt.Appendf(nil, "40 %d", size)}))
			for i := range 40 {
				wantMessage(t, s, pattern(i, size))
			}
			s.CloseSend()
			wantEnd(t, s, 0)
			if most := tenant.most.Load(); most < int64(min(size, 60_000)) {
				t.Errorf("no more than %d bytes were charged", most)
			}
			if fails > 0 {
				s = w.open(t, "Count")
				check.Must(t, s.Send(relay.Message{Data: fmt.Appendf(nil, "1 %d", fails)}))
				if _, err := s.Recv(nil); !errors.Is(err, io.EOF) || s.Status().Code == 0 {
					t.Errorf("a message of %d bytes came: %v, %+v", fails, err, s.Status())
				}
				if r := w.h.results(t, 2)[1]; r.Failure != relay.AccountExceeded {
					t.Errorf("it ended with %+v", r)
				}
			}
			w.drained(t)
			w.Close()
			if left := tenant.held.Load(); left > 32<<10 { // a step that the relay keeps
				t.Errorf("%d bytes are still charged", left)
			}
		})
	}
}

// TestLocalStranger: a call without a group is charged to its client's account, and all of it is released.
func TestLocalStranger(t *testing.T) {
	t.Parallel()
	own := &budget{limit: 100_000}
	client := &relay.Peer{}
	w := newRelayed(t, relay.Config{
		Memory: relay.Memory{Client: func(p *relay.Peer) relay.Account {
			if p == client {
				return own
			}
			return nil
		}},
	})
	for range 3 {
		var a relay.Response
		w.Unary(w.ctx, relay.Request{Path: "/t.T/Echo", Peer: client}, append(make([]byte, relay.Headroom), 'x'), &a)
		if string(a.Message) != "x" {
			t.Errorf("%+v", a)
		}
		s, err := w.Open(w.ctx, relay.Request{Path: "/t.T/Echo", Peer: client})
		check.Must(t, err)
		check.Must(t, s.Send(relay.Message{Data: pattern(1, 1000)}))
		wantMessage(t, s, pattern(1, 1000))
		if own.held.Load() == 0 {
			t.Error("nothing is charged")
		}
		s.CloseSend()
		wantEnd(t, s, 0)
		w.drained(t)
		if held := own.held.Load(); held != 0 {
			t.Errorf("%d bytes are still charged", held)
		}
	}
}
