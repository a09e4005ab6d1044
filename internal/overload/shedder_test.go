package overload_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/overload"
)

// callers are the calls of tenants that run.
type callers struct {
	*overload.Shedder
	running map[string][]*overload.Share
}

func newCallers(cfg overload.Config) *callers {
	return &callers{overload.New(cfg), map[string][]*overload.Share{}}
}

// bring starts n calls of a tenant, and returns the number of admitted ones.
func (c *callers) bring(tenant string, n int) (admitted int) {
	for range n {
		if share, v := c.Admit(tenant); v == overload.Admitted {
			c.running[tenant] = append(c.running[tenant], share)
			admitted++
		}
	}
	return admitted
}

// end ends n calls of a tenant.
func (c *callers) end(tenant string, n int) {
	for range n {
		last := len(c.running[tenant]) - 1
		c.running[tenant][last].Done()
		c.running[tenant] = c.running[tenant][:last]
	}
}

func TestOneTenantAlone(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxInFlight: 100})
	if got := c.bring("", 1000); got != 100 {
		t.Errorf("%d calls of the only tenant, want all 100", got)
	}
	if _, v := c.Admit(""); v != overload.Full {
		t.Errorf("%v", v)
	}
	c.end("", 40)
	if got := c.bring("", 1000); got != 40 || c.InFlight() != 100 {
		t.Errorf("%d more, %d in flight", got, c.InFlight())
	}
	if u := c.Usage(); u.InFlight != 1 {
		t.Errorf("%+v", u)
	}
}

func TestSomethingIsLeftForWhoComes(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxInFlight: 1000})
	if got := c.bring("flood", 5000); got < 790 || got > 810 {
		t.Errorf("%d of the first tenant, want four fifths", got)
	}
	if _, v := c.Admit("flood"); v != overload.OverShare {
		t.Errorf("%v", v)
	}
	if got := c.bring("quiet", 150); got != 150 {
		t.Errorf("%d of 150 calls of another, which has far fewer", got)
	}
	if got := c.bring("flood", 100); got != 0 {
		t.Errorf("%d more of the first", got)
	}
}

// TestTheHeaviestFirst: the bound always holds, and no tenant is rejected while a tenant with at least as many calls is
// admitted.
func TestTheHeaviestFirst(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		bound := int64(1 + r.IntN(500))
		c := newCallers(overload.Config{MaxInFlight: bound})
		names := []string{"a", "b", "c", "d", "e", "f"}[:1+r.IntN(6)]
		for range 2000 {
			if name := names[min(r.IntN(len(names)), r.IntN(len(names)))]; r.IntN(3) == 0 && len(c.running[name]) > 0 {
				c.end(name, 1+r.IntN(len(c.running[name])))
				continue
			}
			admitted, refused := -1, 1<<30 // most calls of an admitted tenant, fewest of a rejected one
			for _, name := range names {
				have := len(c.running[name])
				share, v := c.Admit(name)
				if v != overload.Admitted {
					refused = min(refused, have)
					continue
				}
				admitted = max(admitted, have)
				share.Done()
			}
			if admitted >= refused {
				t.Fatalf("seed %d: a tenant with %d calls is let in, one with %d is not", seed, admitted, refused)
			}
			c.bring(names[r.IntN(len(names))], r.IntN(100))
			if c.InFlight() > bound {
				t.Fatalf("seed %d: %d calls in flight, of %d", seed, c.InFlight(), bound)
			}
		}
	}
}

func TestEqualFloodsGetAsMuch(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxInFlight: 900})
	names := []string{"a", "b", "c", "d"}
	for range 100 {
		for range 300 {
			for _, name := range names {
				c.bring(name, 1)
			}
		}
		for _, name := range names { // a tenth of all calls end
			c.end(name, (len(c.running[name])+9)/10)
		}
	}
	for _, name := range names {
		if n := len(c.running[name]); n < 120 || n > 280 {
			t.Errorf("%s has %d calls, of a fair 225", name, n)
		}
	}
}

func TestConcurrentCallsKeepTheBound(t *testing.T) {
	t.Parallel()
	s := overload.New(overload.Config{MaxInFlight: 50})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 20000 {
				if share, v := s.Admit([]string{"a", "b", "c", ""}[(i+n)%4]); v == overload.Admitted {
					if got := s.InFlight(); got > 50+8 { // each of the others may be about to find out
						t.Errorf("%d in flight", got)
					}
					share.Done()
				}
			}
		})
	}
	callers.Wait()
	if s.InFlight() != 0 {
		t.Errorf("%d left", s.InFlight())
	}
}

// TestMemory: while memory is short, the heaviest tenant gets no calls, and tenants with few calls do. When there is
// enough memory, all tenants get calls as before.
func TestMemory(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxInFlight: 10_000, MaxMemory: 1000})
	c.bring("heavy", 3000)
	c.bring("light", 30)
	c.Tick(overload.Signals{Memory: 1050})
	if heavy, light := c.bring("heavy", 10), c.bring("light", 10); heavy != 0 || light != 10 {
		t.Errorf("short of memory %d calls of the heavy tenant are let in, %d of 10 of the light one", heavy, light)
	}
	if u := c.Usage(); u.Memory != 1.05 {
		t.Errorf("%+v", u)
	}
	c.Tick(overload.Signals{Memory: 1200})
	if heavy, light := c.bring("heavy", 10), c.bring("light", 10); heavy+light != 0 {
		t.Errorf("far too short of memory, %d and %d", heavy, light)
	}
	if first, next := c.bring("another", 10), c.bring("yet another", 10); first != 4 || next != 4 {
		t.Errorf("far too short of memory %d and %d calls of tenants without any are let in, want a few", first, next)
	}
	for range 100 {
		c.Tick(overload.Signals{Memory: 1200})
		for i := range 10 {
			c.bring(fmt.Sprint("tenant ", i), 100)
		}
	}
	if n := c.InFlight(); n > 3040*17/16 {
		t.Errorf("far too short of memory there are more and more calls: %d", n)
	}
	for range 50 {
		c.Tick(overload.Signals{}) // nothing was requested in between
	}
	if got := c.bring("heavy", 10); got != 0 {
		t.Errorf("%d let in, and nobody knows why", got)
	}
	for range 50 {
		c.Tick(overload.Signals{Memory: 500})
	}
	if got := c.bring("heavy", 4000); got != 4000 {
		t.Errorf("%d of 4000 when there is enough memory", got)
	}
}

// TestWhoHoldsTheMemory: while memory is short, the tenant that holds it is shed, however few calls it has, and its
// bodies are not read. One that holds little is not shed, however many calls it has.
func TestWhoHoldsTheMemory(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxInFlight: 10_000, MaxMemory: 1000})
	holds := map[string]int64{"heavy": 900, "light": 30}
	c.SetUse(func(tenant string) overload.Use { return overload.Use{Held: holds[tenant]} })
	c.bring("heavy", 20)
	c.bring("light", 60)
	c.Tick(overload.Signals{Memory: 990})
	if heavy, light := c.bring("heavy", 10), c.bring("light", 10); heavy != 10 || light != 10 {
		t.Errorf("with enough memory %d and %d of 10 calls are admitted", heavy, light)
	}
	body := func(tenant string) overload.Verdict {
		v, _ := c.AdmitBody(tenant, 1<<20)
		return v
	}
	for _, used := range []int64{1050, 1010, 950} { // the last is not yet enough
		c.Tick(overload.Signals{Memory: used})
		if heavy, light := c.bring("heavy", 10), c.bring("light", 1); heavy != 0 || light != 1 {
			t.Errorf("short of memory, %d calls of the heavy tenant are admitted, %d of 1 of the light one", heavy,
				light)
		}
		if heavy, light := body("heavy"), body("light"); heavy != overload.OverShare || light != overload.Admitted {
			t.Errorf("short of memory, bodies: %v and %v", heavy, light)
		}
	}
	_, _, limit := c.AdmitCall("heavy", nil)
	if limit != overload.Memory {
		t.Errorf("shed by the limit %v", limit)
	}
	c.Tick(overload.Signals{Memory: 500})
	if heavy := c.bring("heavy", 1); heavy != 1 || body("heavy") != overload.Admitted {
		t.Error("not admitted with enough memory again")
	}
}

func TestNoLimits(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{})
	for range 20 {
		c.Tick(overload.Signals{Delay: time.Hour, Memory: 1 << 50})
	}
	if got := c.bring("a", 100_000); got != 100_000 {
		t.Errorf("%d", got)
	}
	if u := c.Usage(); u != (overload.Usage{}) {
		t.Errorf("%+v", u)
	}
}

func TestAdmissionAllocatesNothing(t *testing.T) {
	s := overload.New(overload.Config{MaxInFlight: 100})
	if n := testing.AllocsPerRun(1000, func() {
		if share, v := s.Admit("a"); v == overload.Admitted {
			share.Done()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdmit(b *testing.B) {
	s := overload.New(overload.Config{MaxInFlight: 1e6, MaxMemory: 1e9, MaxDelay: time.Millisecond})
	b.ReportAllocs()
	for b.Loop() {
		if share, v := s.Admit("tenant"); v == overload.Admitted {
			share.Done()
		}
	}
}
