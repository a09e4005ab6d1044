// Package table measures the cost of many capabilities with many backends for a gateway without calls: memory, the time
// to apply a change, and the routing of a call. It must run in its own process. It sends no probes and opens no
// connections.
package table

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/bench/proc"
	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/filter/authorize"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/router"
)

// Backends is the number of backends per capability.
const Backends = 10

// Result is the result. Memory is resident, in bytes. Times are the best of several tries, because the rest of the
// machine can only add to them.
type Result struct {
	Capabilities int

	Router  int64 // memory of the table
	Gateway int64 // added by the gateway: connections, counters
	Prober  int64 // health of each backend, before any probe

	Health time.Duration // to apply a fleet's new health
	One    time.Duration // to build and apply a table in which one fleet changed
	All    time.Duration // to build and apply a table in which all fleets changed

	Route  time.Duration // to resolve, route and finish a call
	Allocs float64       // of one call
}

// Measure measures the given number of capabilities.
func Measure(capabilities int) (Result, error) {
	m := &measurement{Result: Result{Capabilities: capabilities}}
	for _, step := range []func() error{m.memory, m.route, m.changes} {
		if err := step(); err != nil {
			return m.Result, err
		}
	}
	return m.Result, nil
}

type measurement struct {
	Result
	cfg     router.Config
	routing *router.Router
	gateway *gateway.Gateway
	prober  *health.Prober
}

// fleets returns the configuration and the fleets to probe.
func fleets(n int) (router.Config, []health.Fleet) {
	var cfg router.Config
	var probes []health.Fleet
	for i := range n {
		capability := fmt.Sprintf("capability-%d", i)
		var addrs []string
		for j := range Backends {
			addrs = append(addrs, fmt.Sprintf("10.%d.%d.%d:50051", i/256, i%256, j))
		}
		cfg.Fleets = append(cfg.Fleets, router.FleetConfig{Capability: capability, Backends: router.Addrs(addrs...),
			Dialect: call.Doc})
		probes = append(probes, health.Fleet{Capability: capability, Backends: addrs, Dialect: call.Doc})
	}
	return cfg, probes
}

// memory builds everything, and measures the memory after each part.
func (m *measurement) memory() (err error) {
	var probes []health.Fleet
	m.cfg, probes = fleets(m.Capabilities)
	before, err := resident()
	if err != nil {
		return err
	}
	table, err := router.NewTable(m.cfg, nil)
	if err != nil {
		return err
	}
	m.routing = router.New(table)
	if m.Router, before, err = grown(before); err != nil {
		return err
	}
	decider, err := policy.New(policy.Options{})
	if err != nil {
		return err
	}
	metrics, err := telemetry.NewMetrics(prometheus.NewRegistry(), telemetry.MetricsConfig{})
	if err != nil {
		return err
	}
	if m.gateway, err = gateway.New(gateway.Config{
		Policy:  authorize.Config{Decider: decider},
		Routing: gateway.Routing{Router: m.routing},
		Observe: gateway.Observe{Metrics: metrics, Recorder: telemetry.NewRecorder(metrics, nil)},
	}); err != nil {
		return err
	}
	if m.Gateway, before, err = grown(before); err != nil {
		return err
	}
	m.prober = health.New(probes, health.Options{Changed: m.routing.SetHealth})
	m.Prober, _, err = grown(before)
	return err
}

func cleartext(string) *tls.Config { return nil }

// resident returns the memory of this process, after returning free memory to the system.
func resident() (int64, error) {
	debug.FreeOSMemory()
	return proc.RSS(os.Getpid())
}

func grown(before int64) (by, now int64, err error) {
	now, err = resident()
	return max(now-before, 0), now, err
}

// best returns the shortest of several tries.
func best(tries int, do func(try int)) time.Duration {
	shortest := time.Hour
	for try := range tries {
		began := time.Now()
		do(try)
		shortest = min(shortest, time.Since(began))
	}
	return shortest
}

// route makes calls of capabilities in an order that no cache predicts. As when they have just been read from a
// connection, the names are contiguous in memory.
func (m *measurement) route() error {
	const calls = 1 << 16
	ids := make([]string, calls)
	var read strings.Builder
	for i := range ids {
		ids[i] = m.cfg.Fleets[rand.IntN(m.Capabilities)].Capability
		read.WriteString(ids[i])
	}
	for i, rest := 0, read.String(); i < calls; i++ {
		ids[i], rest = rest[:len(ids[i])], rest[len(ids[i]):]
	}
	table := m.routing.Table()
	end := router.Outcome{Class: router.Succeeded, Latency: 3 * time.Millisecond, At: time.Now()}
	var failed error
	once := func(int) {
		for _, id := range ids {
			fleet, refusal := table.Resolve(router.Key{Metadata: id, Message: id, Authority: "localhost:8080"},
				anyone{})
			if refusal == nil {
				var claim router.Permit
				if _, claim, refusal = fleet.Route(nil); refusal == nil {
					claim.Done(end)
				}
			}
			if refusal != nil {
				failed = fmt.Errorf("routing %s: %s", id, refusal.Message)
				return
			}
		}
	}
	once(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m.Route = best(40, once) / calls
	runtime.ReadMemStats(&after)
	m.Allocs = float64((after.Mallocs-before.Mallocs)/40) / calls
	return failed
}

// changes applies new health and new tables.
func (m *measurement) changes() error {
	m.Health = best(200, func(int) {
		f := m.cfg.Fleets[rand.IntN(m.Capabilities)]
		backends := make([]health.Backend, Backends)
		for i := range backends {
			backends[i] = health.Backend{Addr: f.Backends[i].Addr, State: health.Up}
		}
		m.routing.SetHealth(health.NewSnapshot(f.Capability, backends))
	})
	var failed error
	swap := func(cfg router.Config) {
		next, err := router.NewTable(cfg, m.routing.Table())
		if err != nil {
			failed = err
			return
		}
		m.gateway.Swap(next, cleartext)
	}
	m.One = best(10, func(try int) {
		cfg := m.cfg
		cfg.Fleets = append([]router.FleetConfig(nil), m.cfg.Fleets...)
		cfg.Fleets[try%m.Capabilities].SlowStart = time.Duration(try+1) * time.Second
		swap(cfg)
	})
	m.All = best(5, func(try int) {
		cfg := m.cfg
		cfg.Fleets = append([]router.FleetConfig(nil), m.cfg.Fleets...)
		for i := range cfg.Fleets {
			cfg.Fleets[i].SlowStart = time.Duration(try+100) * time.Second
		}
		swap(cfg)
	})
	runtime.KeepAlive(m.prober)
	return failed
}

// anyone is a caller that may call every capability.
type anyone struct{}

func (anyone) Sees(string) bool { return true }
