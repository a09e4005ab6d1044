package health_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
)

// first runs a prober over one backend until its first snapshot. The probe may take its time on a busy machine.
func first(t *testing.T, f health.Fleet) health.Backend {
	t.Helper()
	f.Config.Timeout = check.Patience
	changes := make(chan *health.Snapshot, 1)
	p := health.New([]health.Fleet{f}, health.Options{Changed: func(s *health.Snapshot) {
		select {
		case changes <- s:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	defer check.Ended(t, &running, "the background work to end")
	defer cancel()
	return (check.Received(t, changes, "the change")).Backends[0]
}

func TestFirstProbe(t *testing.T) {
	t.Parallel()
	ready := newBackend(answer{ready: true, message: "fine"})
	notReady := newBackend(answer{message: "loading the model"})
	broken := newBackend(answer{code: codes.Internal, message: "no disk"})
	long := newBackend(answer{message: strings.Repeat("ä", 1000)})
	type services = []func(*grpc.Server)
	for name, test := range map[string]struct {
		services services
		dialect  call.Dialect // configured
		state    health.State
		found    call.Dialect
		reason   string // part of it
	}{
		"doc":               {services{doc(ready)}, call.Auto, health.Up, call.Doc, "fine"},
		"live":              {services{live(ready)}, call.Auto, health.Up, call.Live, "fine"},
		"legacy":            {services{legacy(ready)}, call.Auto, health.Up, call.Legacy, ""},
		"not ready, legacy": {services{legacy(notReady)}, call.Auto, health.Down, call.Legacy, "not ready"},
		"legacy beats standard": {
			services{legacy(ready), standard(healthpb.HealthCheckResponse_NOT_SERVING)}, call.Auto, health.Up,
			call.Legacy, "",
		},
		"live beats legacy":      {services{legacy(notReady), live(ready)}, call.Auto, health.Up, call.Live, "fine"},
		"both: doc is preferred": {services{doc(ready), live(notReady)}, call.Auto, health.Up, call.Doc, ""},
		"not ready, doc":         {services{doc(notReady)}, call.Auto, health.Down, call.Doc, "loading the model"},
		"not ready, live":        {services{live(notReady)}, call.Auto, health.Down, call.Live, "loading the model"},
		"fails": {
			services{doc(broken), live(ready)}, call.Auto, health.Down, call.Auto, "Internal: no disk",
		},
		"message too long to keep": {services{doc(long)}, call.Auto, health.Down, call.Doc, "ää…"},
		"configured live":          {services{doc(notReady), live(ready)}, call.Live, health.Up, call.Live, "fine"},
		"configured doc, lacks it": {services{live(notReady)}, call.Doc, health.Up, call.Doc,
			"implements no health call"},
		"grpc.health.v1": {
			services{standard(healthpb.HealthCheckResponse_SERVING)}, call.Auto, health.Up, call.Auto, "SERVING",
		},
		"grpc.health.v1 is not": {
			services{standard(healthpb.HealthCheckResponse_NOT_SERVING)}, call.Auto, health.Down, call.Auto,
			"NOT_SERVING",
		},
		"own check beats standard": {
			services{live(ready), standard(healthpb.HealthCheckResponse_NOT_SERVING)}, call.Auto, health.Up, call.Live,
			"",
		},
		"implements none: can serve": {nil, call.Auto, health.Up, call.Auto, "implements no health call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, nil, test.services...)
			b := first(t, health.Fleet{Capability: "c", Backends: []string{addr}, Dialect: test.dialect})
			if b.Refused {
				t.Error("it answered, yet it is said to have refused the connection")
			}
			if b.State != test.state || b.Dialect != test.found || !strings.Contains(b.Reason, test.reason) {
				t.Errorf("%+v, want %v, %v, %q", b, test.state, test.found, test.reason)
			}
			if len(b.Reason) > 300 || b.Since.IsZero() || b.Addr != addr {
				t.Errorf("%+v", b)
			}
		})
	}
}

func TestFirstProbeOfClosedPort(t *testing.T) {
	t.Parallel()
	addr := check.ClosedPort(t)
	b := first(t, health.Fleet{Capability: "c", Backends: []string{addr}})
	if b.State != health.Down || !b.Refused || !strings.Contains(b.Reason, "connection refused") {
		t.Errorf("%+v", b)
	}
}

func TestFirstProbeTLS(t *testing.T) {
	t.Parallel()
	server, client := testTLS(t)
	addr := listen(t, []grpc.ServerOption{grpc.Creds(credentials.NewTLS(server))}, doc(newBackend(answer{ready: true})))
	if b := first(t, health.Fleet{
		Capability: "c", Backends: []string{addr}, TLS: client,
	}); b.State != health.Up || b.Dialect != call.Doc {
		t.Errorf("%+v", b)
	}
	if b := first(t, health.Fleet{
		Capability: "c", Backends: []string{addr}, TLS: &tls.Config{MinVersion: tls.VersionTLS12},
	}); b.State != health.Down {
		t.Errorf("a certificate of an unknown authority: %+v", b)
	}
}

// network is a network in a synctest bubble. Servers start and stop at its addresses.
type network struct {
	t     *testing.T
	mu    sync.Mutex
	up    map[string]*pipes
	hole  map[string]bool // dials hang; an address in neither map refuses connections
	log   bytes.Buffer
	told  []*health.Snapshot
	start time.Time
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	return &network{t: t, up: map[string]*pipes{}, hole: map[string]bool{}, start: time.Now()}
}

func (w *network) dial(ctx context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	ln, hole := w.up[addr], w.hole[addr]
	w.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if ln == nil {
		return nil, syscall.ECONNREFUSED
	}
	return ln.dial(ctx)
}

// raise starts a server at addr and returns what stops it.
func (w *network) raise(addr string, services ...func(*grpc.Server)) (stop func()) {
	ln := newPipes()
	s := serve(w.t, ln, nil, services...)
	w.mu.Lock()
	w.up[addr] = ln
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.up, addr)
		w.mu.Unlock()
		s.Stop()
	}
}

// run starts a prober; stop ends it and waits.
func (w *network) run(f health.Fleet, maxConcurrent int) (p *health.Prober, stop func()) {
	p = health.New([]health.Fleet{f}, health.Options{
		Dial: w.dial, MaxConcurrent: maxConcurrent,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Changed: func(s *health.Snapshot) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, s)
		},
	})
	return p, w.keep(p)
}

// keep runs p until stop is called.
func (w *network) keep(p *health.Prober) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func stateOf(p *health.Prober, i int) string {
	return p.Snapshot("c").Backends[i].State.String()
}

// slow makes the tests below probe every 10 s, plus or minus 1 s.
var slow = health.Config{Interval: 10 * time.Second, Timeout: time.Second, Rise: 2, Fall: 2}

func TestStatesOverTime(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newNetwork(t)
		b := newBackend(answer{ready: true})
		kill := w.raise("b:1", live(b))
		p, stop := w.run(health.Fleet{Capability: "c", Backends: []string{"b:1"}, Config: slow}, 0)
		defer stop()
		if got := stateOf(p, 0); got != "unknown" {
			t.Errorf("before the first probe: %s", got)
		}
		if ok, summary := p.Snapshot("c").Ready(); !ok || summary != "0 of 1 backends ready, 1 not checked yet" {
			t.Errorf("before the first probe: %v, %s", ok, summary)
		}
		step := func(wait time.Duration, want string) {
			t.Helper()
			<-time.After(wait) // on the bubble's clock
			synctest.Wait()
			if got := stateOf(p, 0); got != want {
				t.Errorf("after %v: %s, want %s", time.Since(w.start), got, want)
			}
		}
		step(0, "up")

		b.answer.Store(&answer{ready: false, message: "tired"})
		step(11100*time.Millisecond, "up") // one bad probe, to be confirmed after 2.25 s at least
		step(3*time.Second, "down")
		if ok, summary := p.Snapshot("c").Ready(); ok || summary != "0 of 1 backends ready" {
			t.Errorf("down: %v, %s", ok, summary)
		}
		b.answer.Store(&answer{ready: true})
		step(23*time.Second, "up")

		b.answer.Store(&answer{hang: true})
		step(26*time.Second, "down") // two probes of up to 11 s wait and 1 s timeout
		if got := p.Snapshot("c").Backends[0]; got.Reason != "no answer in time" || got.Dialect != call.Live {
			t.Errorf("hanging: %+v", got)
		}
		b.answer.Store(&answer{ready: true})
		step(25*time.Second, "up")

		kill()
		step(23*time.Second, "down")
		if !p.Snapshot("c").Backends[0].Refused {
			t.Error("the port is closed, and Refused is not set")
		}
		// The backend recovers in another dialect, after a time in which a backoff would have grown.
		step(10*time.Minute, "down")
		w.raise("b:1", doc(newBackend(answer{ready: true})))
		step(23*time.Second, "up")
		if p.Snapshot("c").Backends[0].Refused {
			t.Error("it came back, and Refused is still set")
		}
		if got := p.Snapshot("c").Backends[0].Dialect; got != call.Doc {
			t.Errorf("after it was replaced: dialect %v", got)
		}

		if logged := strings.Count(w.log.String(), "\n"); logged != len(w.told) || logged < 7 || logged > 9 {
			t.Errorf("%d lines for %d changes:\n%s", logged, len(w.told), w.log.String())
		}
		if !strings.Contains(w.log.String(),
			`level=WARN msg="backend down" capability=c backend=b:1 dialect=live reason=tired `+
				`fleet="0 of 1 backends ready"`) {
			t.Error(w.log.String())
		}
	})
}

func TestSnapshotsAreImmutable(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newNetwork(t)
		w.raise("a:1", doc(newBackend(answer{ready: true})))
		p, stop := w.run(health.Fleet{Capability: "c", Backends: []string{"a:1", "gone:1"}, Config: slow}, 0)
		defer stop()
		before := p.Snapshot("c")
		synctest.Wait()
		if before.Backends[0].State != health.Unknown || before.Backends[1].State != health.Unknown {
			t.Errorf("a snapshot changed: %+v", before.Backends)
		}
		if ok, summary := p.Snapshot("c").Ready(); !ok || summary != "1 of 2 backends ready" {
			t.Errorf("%v, %s", ok, summary)
		}
		if last := w.told[len(w.told)-1]; len(w.told) != 2 || last != p.Snapshot("c") {
			t.Errorf("%d changes reported; the last is not the latest; last %+v", len(w.told), last)
		}
		if p.Snapshot("other") != nil {
			t.Error("a snapshot of no fleet")
		}
	})
}

// A backend that hangs must not delay the probes of others, and the probes in flight stay within the
// limit.
func TestConcurrentProbesAreBounded(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newNetwork(t)
		w.hole["hole:1"], w.hole["hole:2"], w.hole["hole:3"] = true, true, true
		w.raise("b:1", doc(newBackend(answer{ready: true})))
		p, stop := w.run(health.Fleet{
			Capability: "c", Backends: []string{"hole:1", "hole:2", "hole:3", "b:1"}, Config: slow,
		}, 1)
		defer stop()
		<-time.After(3*time.Second + time.Millisecond) // three time-outs, one after the other
		synctest.Wait()
		for i, want := range []string{"down", "down", "down", "up"} {
			if got := stateOf(p, i); got != want {
				t.Errorf("backend %d: %s, want %s", i, got, want)
			}
		}
		w.mu.Lock()
		first, last := w.told[0].Backends, w.told[len(w.told)-1].Backends
		w.mu.Unlock()
		var latest time.Time
		for _, b := range last {
			if b.Since.After(latest) {
				latest = b.Since
			}
		}
		if len(first) != 4 || latest.Sub(w.start) < 2*time.Second {
			t.Errorf("with one concurrent probe, all states were known after %v; first %+v", latest.Sub(w.start),
				first)
		}
	})
}

func TestProbesAreSpread(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		w := newNetwork(t)
		b := newBackend(answer{ready: true})
		var last time.Time
		var waits []time.Duration
		b.seen = func() {
			if !last.IsZero() {
				waits = append(waits, time.Since(last))
			}
			last = time.Now()
		}
		w.raise("b:1", doc(b))
		_, stop := w.run(health.Fleet{Capability: "c", Backends: []string{"b:1"}, Config: slow}, 0)
		<-time.After(1000 * time.Second)
		synctest.Wait()
		stop()
		if n := b.asked.Load(); n < 91 || n > 112 {
			t.Errorf("%d probes in 1,000 s at one every 9 to 11 s", n)
		}
		if least, most := slices.Min(waits), slices.Max(waits); least < 9*time.Second || most > 11*time.Second ||
			least > 9500*time.Millisecond || most < 10500*time.Millisecond {
			t.Errorf("they were %v to %v apart, want about 9 s to 11 s", least, most)
		}
		if len(w.told) != 1 {
			t.Errorf("%d changes of a backend that stayed up", len(w.told))
		}
	})
}

// After detection, only the dialect that answered is probed.
func TestDialectIsRemembered(t *testing.T) {
	t.Parallel()
	for i, service := range []func(*backend) func(*grpc.Server){doc, live, legacy} {
		check.Bubble(t, func(t *testing.T) {
			w := newNetwork(t)
			b, vain := newBackend(answer{ready: true}), int64(0)
			ln := newPipes()
			serve(t, ln, []grpc.ServerOption{grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
				atomic.AddInt64(&vain, 1)
				return status.Error(codes.Unimplemented, "no such service")
			})}, service(b))
			w.up["b:1"] = ln
			_, stop := w.run(health.Fleet{Capability: "c", Backends: []string{"b:1"}, Config: slow}, 0)
			<-time.After(time.Minute)
			synctest.Wait()
			stop()
			if n := atomic.LoadInt64(&vain); n != int64(i) || b.asked.Load() < 5 {
				t.Errorf("service %d of 3: %d calls to others, %d to it", i+1, n, b.asked.Load())
			}
		})
	}
}
