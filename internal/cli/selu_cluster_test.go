package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capgate/capgate/examples/selu"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// seluLoad is orchestrators that use a capability until end.
type seluLoad struct {
	rounds atomic.Int64 // each has a call of every method
	ended  chan struct{}
	all    sync.WaitGroup
}

// startSeluLoad starts callers of the capability for each client. A failed or repeated call fails the test.
func startSeluLoad(t *testing.T, callers int, clients ...*selu.Client) *seluLoad {
	t.Helper()
	l := &seluLoad{ended: make(chan struct{})}
	for i := range callers * len(clients) {
		client := clients[i%len(clients)]
		l.all.Go(func() {
			for {
				select {
				case <-l.ended:
					return
				case <-time.After(pace):
				}
				ctx, cancel := context.WithCancel(t.Context())
				slow := time.AfterFunc(check.Patience, cancel) // no deadline, which would be sent to the gateway
				err := useWeather(ctx, client)
				slow.Stop()
				if cancel(); err != nil {
					t.Error(err)
					return
				}
				l.rounds.Add(1)
			}
		})
	}
	return l
}

// more waits for some further rounds.
func (l *seluLoad) more(t *testing.T, n int64) {
	t.Helper()
	want := l.rounds.Load() + n
	check.Until(t, "further rounds", func() (bool, string) {
		rounds := l.rounds.Load()
		return rounds >= want || t.Failed(), fmt.Sprintf("%d rounds, want %d", rounds, want)
	})
}

func (l *seluLoad) end() {
	close(l.ended)
	l.all.Wait()
}

// TestSeluReplicas: three replicas with TLS and one Redis are restarted one by one under the load of
// orchestrators, whose calls come through forward. No call fails or is repeated, and every replica has served
// many.
func TestSeluReplicas(t *testing.T) {
	t.Parallel()
	// No other program uses this address, so a restarted replica finds its port free.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	w := newSeluRig(t, host, patientRedis(redistest.Start(t).URL()),
		fmt.Sprintf("  - {capability: weather, policy: allow, slow_start: 0s, backends: ['%s']}\n", serveWeather(t)))
	c := &cluster{host: host, file: writeConfig(t, w.text)}
	var urls []string
	for i := range 3 {
		g := &member{addr: net.JoinHostPort(host, strconv.Itoa(20_101+i))}
		c.gateways = append(c.gateways, g)
		c.startGateway(t, g)
		urls = append(urls, "https://"+g.addr)
	}
	c.wait(t, "all to be up", c.gateways, allUp)
	_, one := w.container(t, strings.Join(urls, ","), "weather")
	_, two := w.container(t, strings.Join(urls[1:], ","), "weather")
	l := startSeluLoad(t, 3, one, two)
	busy := map[*member]int{} // number of restarts of a replica that had served calls
	for cycle := 0; cycle < 8 && (busy[c.gateways[0]] < 2 || busy[c.gateways[1]] < 2 ||
		busy[c.gateways[2]] < 2); cycle++ {
		for i, g := range c.gateways {
			l.more(t, 40)
			served := g.program
			g.stop(t)
			c.startGateway(t, g)
			calls := strings.Count(served.stderr.String(), `"msg":"call"`)
			if t.Logf("cycle %d: replica %d served %d calls", cycle, i, calls); calls >= 40 {
				busy[g]++
			}
		}
	}
	l.more(t, 40)
	l.end()
	for i, g := range c.gateways {
		if busy[g] < 2 {
			t.Errorf("replica %d was restarted only %d times while it served calls", i, busy[g])
		}
	}
	if n := one.Repeated() + two.Repeated(); n > 0 {
		t.Errorf("%d calls were repeated", n)
	}
	t.Logf("%d rounds of calls", l.rounds.Load())
}
