package fairshare_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/testkit/check"
)

// An owner alone has four fifths; another finds the rest, and what is given back is there again.
func TestRoomForOthers(t *testing.T) {
	t.Parallel()
	p := fairshare.New("bytes", 1000)
	heavy, light := p.Of("heavy"), p.Of("light")
	taken := int64(0)
	for heavy.Reserve(10) {
		taken += 10
	}
	if taken != 800 {
		t.Errorf("an owner alone has %d of 1000", taken)
	}
	if !light.Reserve(100) {
		t.Error("another has less than four fifths of what is left")
	}
	if light.Reserve(100) {
		t.Error("another has more than four fifths of what is left")
	}
	if p.Used() != 900 || heavy.Held() != 800 || p.Refused() != 2 {
		t.Errorf("%d is used, %d of it the first's, %d refused", p.Used(), heavy.Held(), p.Refused())
	}
	heavy.Release(800)
	light.Release(100)
	if p.Used() != 0 {
		t.Errorf("%d is used in the end", p.Used())
	}
	if !light.Reserve(800) {
		t.Error("an owner alone has less than four fifths in the end")
	}
}

// TestTree: bytes that the parent refuses are not held by the child, and all strangers are one owner of the parent.
func TestTree(t *testing.T) {
	t.Parallel()
	all := fairshare.New("all", 1000)
	calls, bodies := all.Sub("calls", 1000), all.Sub("bodies", 500, fairshare.Weight(3))
	strangers := all.Sub("strangers", 1000, fairshare.AsOwner("?"))
	if !bodies.Of("a").Reserve(100) {
		t.Error("an owner has no 100 of a pool that weighs three times")
	}
	if all.Of("a").Held() != 300 {
		t.Errorf("100 of a pool that weighs three times come to %d above", all.Of("a").Held())
	}
	if calls.Of("a").Reserve(550) || calls.Used() != 0 || all.Used() != 300 {
		t.Errorf("an owner has more of all than it may: %d, %d above", calls.Used(), all.Used())
	}
	if !strangers.Of("10.0.0.1").Reserve(300) {
		t.Error("a stranger has no 300")
	}
	if !strangers.Of("10.0.0.2").Reserve(100) {
		t.Error("another stranger has no 100")
	}
	if all.Of("?").Held() != 400 {
		t.Errorf("strangers hold %d above", all.Of("?").Held())
	}
	if strangers.Of("10.0.0.3").Reserve(170) {
		t.Error("strangers have more of all than one owner may")
	}
	if !calls.Of("b").Reserve(240) {
		t.Error("a tenant finds no room beside strangers")
	}
	bodies.Of("a").Release(100)
	if all.Used() != 640 {
		t.Errorf("%d is used in the end", all.Used())
	}
}

// TestLimitHoldsForMany: of owners that reserve at once, and are forgotten later, as many are refused as find no room.
func TestLimitHoldsForMany(t *testing.T) {
	t.Parallel()
	const owners, n, room = 8, 3, 6 // of the limit 6 owners have 18, and no other finds 3 more
	p := fairshare.New("places", 20)
	for round := range 1000 {
		var all sync.WaitGroup
		var granted, refused atomic.Int64
		accounts := make([]*fairshare.Account, owners)
		for i := range owners {
			all.Go(func() {
				a := p.Of(fmt.Sprint(round, "/", i))
				if !a.Reserve(n) {
					refused.Add(1)
					return
				}
				granted.Add(1)
				accounts[i] = a
				if used := p.Used(); used > room*n {
					t.Errorf("%d is used of %d", used, p.Limit())
				}
			})
		}
		all.Wait()
		if granted.Load() != room || refused.Load() != owners-room || p.Used() != room*n {
			t.Fatalf("round %d: %d owners have %d each, %d are refused, %d is used of %d",
				round, granted.Load(), n, refused.Load(), p.Used(), p.Limit())
		}
		for _, a := range accounts {
			if a != nil {
				all.Go(func() { a.Release(n) })
			}
		}
		all.Wait()
		if p.Used() != 0 {
			t.Fatalf("round %d: %d is used in the end", round, p.Used())
		}
	}
}

// tree returns a root and pools below it of all kinds, which together may have more than there is.
func tree() (root *fairshare.Pool, below []*fairshare.Pool, weights []int64) {
	root = fairshare.New("all", 10_000)
	below = []*fairshare.Pool{
		root.Sub("calls", 10_000), root.Sub("bodies", 4_000, fairshare.Weight(3)),
		root.Sub("strangers", 5_000, fairshare.AsOwner("?")), root.Sub("process", 3_000, fairshare.Unshared()),
	}
	return root, below, []int64{1, 3, 1, 1}
}

// TestSumNeverPassesTheRoot: after each step the children together hold as much as the root, the root at most its
// limit, and no owner more than its share was when it reserved.
func TestSumNeverPassesTheRoot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		root, below, weights := tree()
		r := rand.New(rand.NewPCG(seed, 16))
		type reservation struct {
			of *fairshare.Account
			n  int64
		}
		var reservations []reservation
		for step := range 5000 {
			if i := r.IntN(2 * (len(reservations) + 1)); i < len(reservations) {
				reservations[i].of.Release(reservations[i].n)
				reservations[i] = reservations[len(reservations)-1]
				reservations = reservations[:len(reservations)-1]
			} else if owner, n := below[r.IntN(len(below))].Of(strconv.Itoa(r.IntN(7))), 1+
				r.Int64N(700); owner.Reserve(n) {
				reservations = append(reservations, reservation{owner, n})
			}
			sum := int64(0)
			for i, p := range below {
				if sum += p.Used() * weights[i]; p.Used() > p.Limit() {
					t.Fatalf("seed %d, step %d: %s holds %d of %d", seed, step, p.Name(), p.Used(), p.Limit())
				}
			}
			if sum != root.Used() || sum > root.Limit() {
				t.Fatalf("seed %d, step %d: %d below, %d in the root, of %d", seed, step, sum, root.Used(),
					root.Limit())
			}
		}
		for _, d := range reservations {
			d.of.Release(d.n)
		}
		if root.Used() != 0 || root.Refused() == 0 {
			t.Errorf("seed %d: %d is used in the end, %d refused", seed, root.Used(), root.Refused())
		}
	}
}

// The limits of the root and of each pool hold at every moment while many reserve and release at once.
func TestLimitsHoldAtOnce(t *testing.T) {
	t.Parallel()
	root, below, _ := tree()
	var all sync.WaitGroup
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			for _, p := range slices.Concat(below, []*fairshare.Pool{root}) {
				if used := p.Used(); used > p.Limit() || used < 0 {
					t.Errorf("%s holds %d of %d", p.Name(), used, p.Limit())
					return
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for worker := range uint64(8) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(worker, 16))
			for range 5000 {
				n := 1 + r.Int64N(900)
				if a := below[r.IntN(len(below))].Of(strconv.Itoa(r.IntN(7))); a.Reserve(n) {
					if root.Used() < n {
						t.Errorf("%d was reserved, and the root has %d", n, root.Used())
					}
					a.Release(n)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	check.Received(t, watched, "the watch")
	if root.Used() != 0 {
		t.Errorf("%d is used in the end", root.Used())
	}
}

func BenchmarkReserve(b *testing.B) {
	a := fairshare.New("all", 1<<30).Sub("relay", 1<<30).Of("tenant")
	b.ReportAllocs()
	for b.Loop() {
		a.Reserve(64 << 10)
		a.Release(64 << 10)
	}
}
