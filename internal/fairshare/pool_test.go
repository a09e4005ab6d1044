package fairshare_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/fairshare"
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
	if !light.Reserve(100) || light.Reserve(100) {
		t.Error("another has not four fifths of what is left")
	}
	if p.Used() != 900 || heavy.Held() != 800 || p.Refused() != 2 {
		t.Errorf("%d is used, %d of it the first's, %d refused", p.Used(), heavy.Held(), p.Refused())
	}
	heavy.Release(800)
	light.Release(100)
	if p.Used() != 0 || !light.Reserve(800) {
		t.Errorf("%d is used in the end", p.Used())
	}
}

// What is refused above is not held below, and strangers are one owner above.
func TestTree(t *testing.T) {
	t.Parallel()
	all := fairshare.New("all", 1000)
	calls, bodies := all.Sub("calls", 1000), all.Sub("bodies", 500, fairshare.Weight(3))
	strangers := all.Sub("strangers", 1000, fairshare.As("?"))
	if !bodies.Of("a").Reserve(100) || all.Of("a").Held() != 300 {
		t.Errorf("100 of a pool that weighs three times come to %d above", all.Of("a").Held())
	}
	if calls.Of("a").Reserve(550) || calls.Used() != 0 || all.Used() != 300 {
		t.Errorf("an owner has more of all than it may: %d, %d above", calls.Used(), all.Used())
	}
	if !strangers.Of("10.0.0.1").Reserve(300) || !strangers.Of("10.0.0.2").Reserve(100) || all.Of("?").Held() != 400 {
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
	calls.Of("gateway").Force(5000)
	if calls.Of("b").Reserve(1) {
		t.Error("there is room where there is none")
	}
	calls.Of("gateway").Release(5000)
}

// Owners that hold nothing are forgotten, and the limit holds whoever asks at once.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := fairshare.New("places", 100)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 5000 {
				a := p.Of(strconv.Itoa(i))
				if !a.Reserve(3) {
					continue
				}
				if p.Used() > 100+8*3 { // of those that are refused in this moment
					t.Error("more is used than there is")
				}
				a.Release(3)
			}
		})
	}
	all.Wait()
	if p.Used() != 0 {
		t.Errorf("%d is used in the end", p.Used())
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
