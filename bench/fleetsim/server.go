package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

var discard = slog.New(slog.DiscardHandler)

const (
	settle      = 10 * time.Second // time for replicas to subscribe and to spread their timers
	dialTimeout = 10 * time.Second
)

// measurement runs replicas against a real redis-server.
type measurement struct {
	server   *redistest.Plain
	replicas []*replica
	window   time.Duration
}

// cost is the use of Redis during a window, per second.
type cost struct{ commands, busy float64 }

// onServer measures the cost of each feature, and of all together, at a real redis-server.
func onServer(out io.Writer, replicas, rate int, window, timeout time.Duration, only string, dead int) {
	var main redistest.Main
	defer main.Close()
	m := &measurement{server: redistest.StartPlain(&main, "--maxclients", "19000"), window: window}
	for i := range replicas {
		s := must(redisstore.Open(redisstore.Config{URL: m.server.URL(), Timeout: timeout, Dial: dialTimeout}))
		defer s.Close()
		m.replicas = append(m.replicas, &replica{id: fmt.Sprintf("gateway-%d", i), of: replicas, store: s})
	}
	fmt.Fprintf(out, "%d replicas, a real redis-server, windows of %v\n\n", replicas, window)
	fmt.Fprintln(out, "| feature | Redis commands/s | of them a replica | Redis busy | µs of Redis a command |\n"+
		"|---|---|---|---|---|")
	row := func(name string, rate int, all []shared, during func()) {
		if !strings.Contains(name, only) {
			return
		}
		c := m.measure(rate, all, during)
		fmt.Fprintf(out, "| %s | %.0f | %.1f | %.1f%% | %.0f |\n", name, c.commands, c.commands/float64(replicas),
			100*c.busy, 1e6*c.busy/c.commands)
	}
	row("none: probes of Redis", 0, nil, nil)
	for _, f := range features() {
		row(f.name, 0, []shared{f}, nil)
	}
	for _, f := range features() {
		switch f.name {
		case "recent calls":
			row(fmt.Sprintf("%s, %d calls/s at each replica", f.name, rate), rate, []shared{f}, nil)
		case "drains":
			row("drains, while a backend is drained", 0, []shared{f}, m.drain)
		}
	}
	row("all, at rest", 0, features(), nil)
	row(fmt.Sprintf("all, %d calls/s at each replica, a backend is drained", rate), rate, features(), m.drain)
	if strings.Contains("mass failure", only) {
		fmt.Fprintln(out)
		m.massFailure(out, dead)
	}
}

// measure runs features at all replicas and returns their cost. If during is not nil, it runs before the window.
func (m *measurement) measure(rate int, all []shared, during func()) cost {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, r := range m.replicas {
		r.rate = rate
		for _, f := range all {
			for _, loop := range f.start(r) {
				running.Go(func() {
					select { // spread the starts of the replicas
					case <-time.After(rand.N(settle / 2)):
					case <-ctx.Done():
					}
					loop(ctx)
				})
			}
		}
	}
	time.Sleep(settle)
	if during != nil {
		during()
		time.Sleep(settle / 2)
	}
	before, commands := m.threadTime(), m.commands()
	began := time.Now()
	time.Sleep(m.window)
	seconds := time.Since(began).Seconds()
	c := cost{float64(m.commands()-commands) / seconds, (m.threadTime() - before).Seconds() / seconds}
	stop()
	running.Wait()
	m.server.Do("FLUSHALL")
	return c
}

// drain drains a backend.
func (m *measurement) drain() {
	_, _ = m.replicas[0].drains.Set(context.Background(), []drains.Key{{Capability: "weather", Addr: "10.0.0.7:50051"}},
		true, "ann")
}

// commands returns the number of commands that the replicas have sent.
func (m *measurement) commands() (n int64) {
	for _, r := range m.replicas {
		for _, sent := range r.store.Stats().Commands {
			n += sent
		}
	}
	return n
}

// threadTime returns the CPU time of the server's main thread.
func (m *measurement) threadTime() time.Duration {
	total := 0.0
	info, _ := m.server.Do("INFO", "cpu").(string)
	for line := range strings.SplitSeq(info, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if strings.HasSuffix(name, "_main_thread") {
			total += must(strconv.ParseFloat(value, 64))
		}
	}
	return time.Duration(total * float64(time.Second))
}

// must panics on err. It is for calls of this program that cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
