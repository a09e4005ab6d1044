package accept

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestHandshakeLimit: the limit admits the newest waiting handshake first. A handshake that has been canceled does not
// delay the others.
func TestHandshakeLimit(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := &handshakeLimit{free: 1}
		check.Must(t, l.acquire(t.Context(), netip.Prefix{}))
		var in []int
		leaves, leave := context.WithCancel(t.Context())
		for i := range 4 {
			ctx := t.Context()
			if i == 3 {
				ctx = leaves
			}
			go func() {
				if l.acquire(ctx, netip.Prefix{}) == nil {
					in = append(in, i)
				}
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		for range 3 {
			l.release()
			synctest.Wait()
		}
		if len(in) != 3 || in[0] != 2 || in[1] != 1 || in[2] != 0 {
			t.Errorf("%v", in)
		}
		l.release()
		if l.free != 1 {
			t.Errorf("%d are free", l.free)
		}
	})
}

// TestHandshakeIsGivenUpAsItAcquires: a handshake that is canceled while it is being admitted gives its place back.
func TestHandshakeIsGivenUpAsItAcquires(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := &handshakeLimit{free: 1}
		check.Must(t, l.acquire(t.Context(), netip.Prefix{}))
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.acquire(ctx, netip.Prefix{}) }()
		synctest.Wait()
		l.mu.Lock()
		giveUp()
		l.pass()
		l.mu.Unlock()
		if err := <-ended; err == nil || l.free != 1 {
			t.Errorf("it gave up with %v; %d are free", err, l.free)
		}
	})
}

// TestHandshakesOfNetworksTakeTurns: however many handshakes of one network wait, a handshake of another network waits
// for only one of them.
func TestHandshakesOfNetworksTakeTurns(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := &handshakeLimit{free: 1}
		flood, a, b := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32"),
			netip.MustParsePrefix("2001:db8::/64")
		check.Must(t, l.acquire(t.Context(), flood))
		var in []string
		wait := func(name string, network netip.Prefix) {
			go func() {
				if l.acquire(t.Context(), network) == nil {
					in = append(in, name)
				}
			}()
			synctest.Wait()
		}
		wait("a1", a)
		wait("a2", a)
		wait("b1", b)
		for range 100 {
			wait("flood", flood)
		}
		let := func(n int) {
			for range n {
				l.release()
				synctest.Wait()
			}
		}
		let(4) // the network whose handshake came last is served first, and then moves to the end
		if got := strings.Join(in, " "); got != "flood b1 a2 flood" {
			t.Errorf("%s", got)
		}
		wait("late", b)
		let(2)
		if got := strings.Join(in[4:], " "); got != "late a1" {
			t.Errorf("%s", got)
		}
		let(98)
		if len(in) != 104 || l.next.Len() != 0 || len(l.byNetwork) != 0 {
			t.Errorf("%d were in, %d wait", len(in), l.next.Len())
		}
		if l.release(); l.free != 1 {
			t.Errorf("%d are free", l.free)
		}
	})
}

// TestOldestHandshakeIsEnded: only a limited number of handshakes of one network wait. A newer one replaces the oldest.
// Other networks, and unbounded ones, are not affected.
func TestOldestHandshakeIsEnded(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		l := &handshakeLimit{free: 1, most: 2}
		flood, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
		check.Must(t, l.acquire(t.Context(), flood))
		in, ended := 0, 0
		wait := func(network netip.Prefix, n int) {
			for range n {
				go func() {
					switch err := l.acquire(t.Context(), network); err {
					case nil:
						in++
					case errHandshakes:
						ended++
					default:
						t.Error(err)
					}
				}()
				synctest.Wait()
			}
		}
		wait(flood, 5)
		wait(other, 1)
		wait(netip.Prefix{}, 4)
		if waiting, dropped := l.stats(); waiting != 7 || dropped != 3 || ended != 3 {
			t.Errorf("%d wait, %d were ended, %d heard of it", waiting, dropped, ended)
		}
		for range 8 {
			l.release()
			synctest.Wait()
		}
		if waiting, _ := l.stats(); in != 7 || waiting != 0 || l.free != 1 || len(l.byNetwork) != 0 {
			t.Errorf("%d were in, %d wait, %d are free", in, waiting, l.free)
		}
	})
}
