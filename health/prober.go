package health

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// Config says how the backends of one fleet are probed. The zero value works.
type Config struct {
	Interval time.Duration // from the end of one probe to the start of the next; default 5 s
	Timeout  time.Duration // of one probe, connecting included; default 1 s
	Jitter   float64       // share of Interval by which each wait is varied, 0 to 1; default 0.1
	Rise     int           // consecutive good probes that bring a backend back; default 2
	Fall     int           // consecutive bad probes that take it out; default 2
}

func (c Config) withDefaults() Config {
	if c.Interval <= 0 {
		c.Interval = 5 * time.Second
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Second
	}
	if c.Jitter <= 0 || c.Jitter > 1 {
		c.Jitter = 0.1
	}
	c.Rise = max(c.Rise, 0)
	if c.Rise == 0 {
		c.Rise = 2
	}
	c.Fall = max(c.Fall, 0)
	if c.Fall == 0 {
		c.Fall = 2
	}
	return c
}

// Fleet is a set of backends to probe.
type Fleet struct {
	Capability string
	Backends   []string     // host:port, unique
	Dialect    call.Dialect // Auto: find out; else only this dialect's Healthcheck is tried
	TLS        *tls.Config  // nil: cleartext
	Config     Config
}

// Options are what a Prober may be given. The zero value works.
type Options struct {
	// Changed is told of every transition with the fleet's new snapshot. It runs on
	// a probe's goroutine, one call at a time for each fleet, and must not block.
	Changed func(*Snapshot)
	// Logger gets one line per transition; default none.
	Logger *slog.Logger
	// MaxConcurrent bounds the probes under way at one time; default 64.
	MaxConcurrent int
	// Dial connects to a host:port; default TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Prober asks every backend of its fleets, again and again, whether it is alive.
type Prober struct {
	groups  []*group
	byName  map[string]*group
	options Options
	slots   chan struct{} // one token per probe under way
}

// group is one fleet with its current snapshot.
type group struct {
	fleet Fleet
	snap  atomic.Pointer[Snapshot]
	mu    sync.Mutex // held while a new snapshot is made and told
}

// New makes a Prober, in whose snapshots every backend is Unknown until Run.
func New(fleets []Fleet, options Options) *Prober {
	if options.Changed == nil {
		options.Changed = func(*Snapshot) {}
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.MaxConcurrent <= 0 {
		options.MaxConcurrent = 64
	}
	if options.Dial == nil {
		options.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	p := &Prober{byName: make(map[string]*group, len(fleets)), options: options, slots: make(chan struct{}, options.MaxConcurrent)}
	for _, f := range fleets {
		f.Config = f.Config.withDefaults()
		backends := make([]Backend, len(f.Backends))
		for i, addr := range f.Backends {
			backends[i] = Backend{Addr: addr, Dialect: f.Dialect}
		}
		g := &group{fleet: f}
		g.snap.Store(NewSnapshot(f.Capability, backends))
		p.groups = append(p.groups, g)
		p.byName[f.Capability] = g
	}
	return p
}

// Snapshot returns the newest snapshot of a capability's fleet, nil if there is
// no such fleet.
func (p *Prober) Snapshot(capability string) *Snapshot {
	g := p.byName[capability]
	if g == nil {
		return nil
	}
	return g.snap.Load()
}

// Run probes until ctx ends. When it returns, no goroutine and no connection of
// it is left.
func (p *Prober) Run(ctx context.Context) {
	var backends sync.WaitGroup
	for _, g := range p.groups {
		for i := range g.fleet.Backends {
			backends.Go(func() { p.watch(ctx, g, i) })
		}
	}
	backends.Wait()
}

// watch probes backend i of g until ctx ends.
func (p *Prober) watch(ctx context.Context, g *group, i int) {
	f := &g.fleet
	c := &client{addr: f.Backends[i], tls: f.TLS, dial: p.options.Dial, dialect: f.Dialect}
	defer c.close()
	j := judge{rise: f.Config.Rise, fall: f.Config.Fall}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		r, ok := p.probe(ctx, c, f.Config.Timeout)
		if !ok {
			return
		}
		changed := j.observe(r.ok)
		r.refused = r.refused && j.state == Down
		if b := &g.snap.Load().Backends[i]; changed || r.dialect != b.Dialect || r.refused != b.Refused {
			p.publish(g, i, j.state, r)
		}
		timer.Reset(vary(f.Config.Interval, f.Config.Jitter))
	}
}

// probe waits for a slot and probes once. It is not ok when ctx ended.
func (p *Prober) probe(ctx context.Context, c *client, timeout time.Duration) (r result, ok bool) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return result{}, false
	}
	defer func() { <-p.slots }()
	attempt, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r = c.probe(attempt)
	return r, ctx.Err() == nil
}

// publish makes and tells a snapshot in which backend i has a new state.
func (p *Prober) publish(g *group, i int, state State, r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	backends := slices.Clone(g.snap.Load().Backends)
	b := &backends[i]
	if b.State != state {
		b.State, b.Since = state, time.Now()
	}
	b.Dialect, b.Reason, b.Refused = r.dialect, r.reason, r.refused
	next := NewSnapshot(g.fleet.Capability, backends)
	g.snap.Store(next)
	p.options.Changed(next)

	level := slog.LevelInfo
	if state == Down {
		level = slog.LevelWarn
	}
	p.options.Logger.LogAttrs(context.Background(), level, "backend "+state.String(),
		slog.String("capability", g.fleet.Capability), slog.String("backend", b.Addr),
		slog.String("dialect", b.Dialect.String()), slog.String("reason", b.Reason), slog.String("fleet", next.summary))
}

// vary spreads d by up to share of it in both directions, so that the probes of
// many backends and gateways do not march in step.
func vary(d time.Duration, share float64) time.Duration {
	return d + time.Duration(float64(d)*share*(2*rand.Float64()-1))
}
