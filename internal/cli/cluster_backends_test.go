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

// Three gateways behave as one while backends die, freeze, start slowly and are replaced:
// no call fails that another backend could have answered, and none comes to two backends
// that must not.
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

// killBackend kills a backend that has calls. A write that it had may have been carried
// out, so its caller must hear of it; a read goes elsewhere, unless its answer had begun.
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
	// Each caller has one call at a time, which the backend had when it died. The next one may still be written to the
	// connection.
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
			t.Errorf("call %s failed, and came to another backend", f.id)
		}
	}
}

// onlyFailuresOf fails the test if a gateway had calls that failed with other backends.
func (c *cluster) onlyFailuresOf(t *testing.T, g *member, backend string) {
	t.Helper()
	for line := range strings.Lines(g.stderr.String()) {
		if strings.Contains(line, `"msg":"call"`) && !strings.Contains(line, `"outcome":"success"`) &&
			attribute(line, "backend") != backend {
			t.Errorf("no call should have failed so: %s", line)
		}
	}
}

// startSlowly starts a backend again that listens long before it is ready.
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
		t.Error("a call came to a backend that was not ready")
	}
}

// freezeBackend stops a backend that has calls, which wait for it and are answered when it
// goes on.
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

// restartBackends replaces one after the other.
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
