package cli

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestClusterOfThree: three gateways act as one while backends die, freeze, start slowly and are replaced: no
// call fails that another backend could have served, and no call that may run only once reaches two.
func TestClusterOfThree(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	c.agree(t, c.gateways)
	killed := c.backends[0]
	c.killBackend(t, killed, c.gateways)
	c.startSlowly(t, killed)
	c.freezeBackend(t)
	c.restartBackends(t)
	c.agree(t, c.gateways)
	c.twice(t)
	for _, g := range c.gateways {
		g.stop(t)
		c.onlyFailuresOf(t, g, killed.addr)
	}
}

// killBackend kills a backend that has calls. A write there may have run, so its caller must get an error; a
// read is retried elsewhere, unless its response had begun.
func (c *cluster) killBackend(t *testing.T, b *member, gateways []*member) {
	t.Helper()
	var mu sync.Mutex
	var lost []failure
	excuse := func(f failure) bool {
		mu.Lock()
		defer mu.Unlock()
		lost = append(lost, f)
		return status.Code(f.err) == codes.Unavailable && (f.tool == writeTool || f.begun)
	}
	c.under(t, "a backend is killed", gateways, excuse, func() {
		b.kill()
		c.wait(t, "a backend that was killed to be down", gateways, only(b.addr, "down"))
	})
	// Each caller has one call at a time, which the backend had when it died. The next one may still be written
	// to the connection.
	if most := 2 * underCallers * len(gateways); len(lost) > most {
		t.Errorf("%d calls were lost with the backend that was killed, at most %d may be", len(lost), most)
	}
	others := map[string]int{}
	for _, p := range c.ran {
		if p != b.program {
			deliveries(others, p)
		}
	}
	for _, f := range lost {
		if others[f.id] > 0 {
			t.Errorf("call %s failed, and reached another backend", f.id)
		}
	}
}

// onlyFailuresOf fails the test if calls of a gateway failed at other backends.
func (c *cluster) onlyFailuresOf(t *testing.T, g *member, backend string) {
	t.Helper()
	for line := range strings.Lines(g.stderr.String()) {
		if strings.Contains(line, `"msg":"call"`) && !strings.Contains(line, `"outcome":"success"`) &&
			attribute(line, "backend") != backend {
			t.Errorf("no call should have failed so: %s", line)
		}
	}
}

// startSlowly restarts a backend that listens long before it is ready.
func (c *cluster) startSlowly(t *testing.T, b *member) {
	t.Helper()
	c.under(t, "a backend starts slowly", c.gateways, nil, func() {
		c.startBackend(t, b, startsSlowly+"=1")
		b.stdout.wait(t, b.program, askedLine+askedLine)
		b.signal(t, syscall.SIGUSR1)
		c.wait(t, "a backend that was not ready to be up", c.gateways, allUp)
	})
	before, _, _ := strings.Cut(b.stdout.String(), readyLine)
	if strings.Contains(before, deliveredLine) {
		t.Error("a call reached a backend that was not ready")
	}
}

// freezeBackend freezes a backend that has calls. They wait for it and succeed when it continues.
func (c *cluster) freezeBackend(t *testing.T) {
	t.Helper()
	b := c.backends[1]
	c.under(t, "a backend is frozen", c.gateways, nil, func() {
		b.signal(t, syscall.SIGSTOP)
		c.wait(t, "a frozen backend to be down", c.gateways, only(b.addr, "down"))
		b.signal(t, syscall.SIGCONT)
		c.wait(t, "a backend that goes on to be up", c.gateways, allUp)
	})
}

// restartBackends replaces them one after another.
func (c *cluster) restartBackends(t *testing.T) {
	t.Helper()
	c.under(t, "backends are restarted", c.gateways, nil, func() {
		for _, b := range slices.Clone(c.backends) {
			b.stop(t)
			c.startBackend(t, b)
			c.wait(t, "a backend that was restarted to be up", c.gateways, allUp)
		}
	})
}
