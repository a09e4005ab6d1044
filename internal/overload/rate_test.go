package overload_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/overload"
)

// plant is a process that does so many calls a second, and no more. What it has not looked
// at yet waits, and is asked about when it is its turn, as bytes are that lie in sockets.
type plant struct {
	*callers
	rand     *rand.Rand
	capacity float64  // calls a tick
	ticks    int      // of the last run
	waiting  []string // callers, in the order of their arrival
	admitted map[string]int
	refused  map[string]int
}

// refusal is the cost of rejecting a call, in calls.
const refusal = 0.02

func newPlant(capacity int) *plant {
	return &plant{
		callers:  newCallers(overload.Config{MaxDelay: 5 * time.Millisecond}),
		rand:     rand.New(rand.NewPCG(1, 2)),
		capacity: float64(capacity) * overload.Tick.Seconds(),
	}
}

// run simulates tenants with the given numbers of calls per tick, for a time.
func (p *plant) run(d time.Duration, brings map[string]int) {
	p.admitted, p.refused = map[string]int{}, map[string]int{}
	p.ticks = int(d / overload.Tick)
	for range p.ticks {
		var came []string
		for _, tenant := range slices.Sorted(maps.Keys(brings)) {
			came = append(came, slices.Repeat([]string{tenant}, brings[tenant])...)
		}
		p.rand.Shuffle(len(came), func(i, j int) { came[i], came[j] = came[j], came[i] })
		p.waiting = append(p.waiting, came...)
		left := p.capacity
		for ; left > 0 && len(p.waiting) > 0; p.waiting = p.waiting[1:] {
			tenant := p.waiting[0]
			if p.bring(tenant, 1) == 1 {
				p.end(tenant, 1) // in flight does not matter here
				p.admitted[tenant]++
				left--
				continue
			}
			p.refused[tenant]++
			left -= refusal
		}
		p.Tick(overload.Signals{Delay: p.delay()})
	}
}

// room returns how many calls there was time for in the last run, beside turning others away.
func (p *plant) room() int {
	turnedAway := 0
	for _, n := range p.refused {
		turnedAway += n
	}
	return int(float64(p.ticks)*p.capacity - refusal*float64(turnedAway))
}

func (p *plant) delay() time.Duration {
	return time.Duration(float64(len(p.waiting)) / p.capacity * float64(overload.Tick))
}

// TestFloodIsCutDown: one tenant sends ten times the calls that the process can handle. The other sends a tenth of the
// capacity and loses no call, and no call waits long.
func TestFloodIsCutDown(t *testing.T) {
	t.Parallel()
	p := newPlant(10_000)
	brings := map[string]int{"flood": 2000, "quiet": 20}
	p.run(3*time.Second, brings)
	var late int
	var admitted int
	for range 500 {
		p.run(overload.Tick, brings)
		if p.refused["quiet"] > 0 {
			t.Fatalf("%d calls of the quiet tenant were turned away", p.refused["quiet"])
		}
		admitted += p.admitted["flood"]
		if p.delay() > 5*time.Millisecond {
			late++
		}
	}
	if late > 100 {
		t.Errorf("bytes waited too long in %d ticks of 500", late)
	}
	if admitted < 500*100 {
		t.Errorf("%d calls of the flood were let in, of %d that there was time for", admitted, 500*180)
	}
	p.run(2*time.Second, map[string]int{"flood": 20, "quiet": 20})
	p.run(time.Second, map[string]int{"flood": 20, "quiet": 20})
	if p.refused["flood"] > 0 {
		t.Errorf("%d calls turned away although there is no flood any more", p.refused["flood"])
	}
}

// TestFairRates: tenants that want less than their share get it all, and the others share the rest.
func TestFairRates(t *testing.T) {
	t.Parallel()
	p := newPlant(10_000) // 200 a tick
	brings := map[string]int{"a": 300, "b": 200, "c": 30, "d": 1}
	p.run(15*time.Second, brings) // the rate, which was cut to far too little, grows again
	p.run(10*time.Second, brings)
	light := p.admitted["c"] + p.admitted["d"]
	if light != 31*500 {
		t.Errorf("light tenants lost %d and %d calls", p.refused["c"], p.refused["d"])
	}
	share := (p.room() - light) / 2
	for _, flood := range []string{"a", "b"} {
		if n := p.admitted[flood]; n < share*85/100 || n > share {
			t.Errorf("flood %s got %d calls of its share of %d", flood, n, share)
		}
	}
	if a, b := p.admitted["a"], p.admitted["b"]; a > b*101/100 || b > a*101/100 {
		t.Errorf("of two floods one got %d calls, the other %d", a, b)
	}
}

// TestDebtIsBounded: a tenant whose one request has cost far more than its share waits, and not for ever.
func TestDebtIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlant(1000)
	brings := map[string]int{"flood": 40, "large": 1}
	p.run(3*time.Second, brings)
	p.Charge("large", 1<<40)
	if v, limit := p.AdmitBody("large", 1<<20); v != overload.OverShare || limit != overload.Delay {
		t.Errorf("a tenant in debt: %v by the limit %v", v, limit)
	}
	if v, _ := p.AdmitBody("another", 1<<20); v != overload.Admitted {
		t.Errorf("a tenant without a debt: %v", v)
	}
	p.run(time.Second, brings)
	if p.admitted["large"] > 0 {
		t.Errorf("%d calls of a tenant in debt were admitted", p.admitted["large"])
	}
	p.run(30*time.Second, brings)
	if v, _ := p.AdmitBody("large", 1<<20); v != overload.Admitted {
		t.Errorf("long after that: %v", v)
	}
}

// TestBurstsAreNotFloods: a tenant that sends few calls, all at once, loses none.
func TestBurstsAreNotFloods(t *testing.T) {
	t.Parallel()
	p := newPlant(10_000)
	p.run(3*time.Second, map[string]int{"flood": 2000})
	for range 10 {
		p.run(500*time.Millisecond, map[string]int{"flood": 2000})
		p.run(overload.Tick, map[string]int{"flood": 2000, "bursts": 300}) // 600 a second, of a fair 5,000
		if p.refused["bursts"] > 0 {
			t.Fatalf("%d calls of a burst were turned away", p.refused["bursts"])
		}
	}
}

// TestOnlyTenantIsHeldToTheRate: without others the calls that are too many are turned away
// as they come.
func TestOnlyTenantIsHeldToTheRate(t *testing.T) {
	t.Parallel()
	p := newPlant(10_000)
	brings := map[string]int{"": 400}
	p.run(15*time.Second, brings)
	p.run(10*time.Second, brings)
	if n, room := p.admitted[""], p.room(); n < room*85/100 || n > room {
		t.Errorf("%d calls were let in, of %d that there was time for", n, room)
	}
}

// TestOneLateTickIsNone: bytes that waited once say nothing.
func TestOneLateTickIsNone(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxDelay: time.Millisecond})
	for i := range 1000 {
		var d time.Duration
		if i%5 > 0 {
			d = time.Second
		}
		if got := c.bring("a", 100); got != 100 {
			t.Fatalf("%d of 100", got)
		}
		c.end("a", 100)
		c.Tick(overload.Signals{Delay: d})
	}
}

// TestStandingDelay: after a tenth of a second in which bytes waited too long calls are shed, and not before.
func TestStandingDelay(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxDelay: time.Millisecond})
	for range 5 {
		if got := c.bring("a", 100); got != 100 {
			t.Fatalf("%d of 100", got)
		}
		c.end("a", 100)
		c.Tick(overload.Signals{Delay: time.Second})
	}
	if got := c.bring("a", 100); got == 0 || got == 100 {
		t.Errorf("%d of 100 calls when the delay stands", got)
	}
}

// TestForgets: tenants that have left use no memory and no part of the rate.
func TestForgets(t *testing.T) {
	t.Parallel()
	c := newCallers(overload.Config{MaxInFlight: 100})
	c.bring("stays", 1)
	last, _, _ := c.AdmitCall("leaves", nil)
	if next, _, _ := c.AdmitCall("leaves", last); next != last {
		t.Error("the second call of a tenant has another share")
	}
	if other, _, _ := overload.New(overload.Config{}).AdmitCall("leaves", last); other == last {
		t.Error("a share is used by another process")
	}
	last.Done()
	last.Done()
	for range 600 {
		c.Tick(overload.Signals{})
	}
	if n := c.Tenants(); n != 1 {
		t.Errorf("%d tenants are known, want the one whose call runs", n)
	}
	if next, _, _ := c.AdmitCall("leaves", last); next == last || c.Tenants() != 2 {
		t.Errorf("a forgotten share is used: %t; %d tenants are known", next == last, c.Tenants())
	}
}
