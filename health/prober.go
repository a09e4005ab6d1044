package health

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// Options are what a Prober may be given. The zero value works.
type Options struct {
	// Changed is told of every transition with the fleet's new snapshot, in order. One
	// call runs at a time; it must not block, and not call Set.
	Changed func(*Snapshot)
	// Logger gets one line per transition; default none.
	Logger *slog.Logger
	// MaxConcurrent bounds the probes under way at one time; default 64.
	MaxConcurrent int
	// Dial connects to a host:port; default TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Clock is the local time, which may be wrong but does not jump; default time.Now.
	Clock func() time.Time
	// Shared is how the work is shared with other replicas; default nil: it is not.
	Shared *Shared
}

// Prober asks every backend of its fleets, again and again, whether it is alive. It
// gives a Replica time, network and goroutines.
type Prober struct {
	options Options
	mu      sync.Mutex // held while replica is used, and while changes are told
	replica *Replica
	snaps   sync.Map      // capability → *Snapshot, the newest
	wake    chan struct{} // the replica may have something to do; room for one
}

// New makes a Prober, in whose snapshots every backend is Unknown until Run.
func New(fleets []Fleet, options Options) *Prober {
	if options.Changed == nil {
		options.Changed = func(*Snapshot) {}
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Clock == nil {
		options.Clock = time.Now
	}
	if options.Dial == nil {
		options.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	p := &Prober{options: options, wake: make(chan struct{}, 1)}
	p.replica = NewReplica(options.replica())
	p.Set(fleets)
	return p
}

// Set makes fleets all that is probed from now on, in place of those before; it may
// be called at any time. A backend that stays, with its capability, address, question and
// dialect, keeps its state, and what did not change at all costs a comparison of its
// addresses. Options.Changed is told of fleets whose members changed, not of new
// fleets, of which nothing is known yet: whoever listens should know a fleet before
// Set does.
func (p *Prober) Set(fleets []Fleet) {
	p.turn(func(now time.Time) {
		for _, capability := range p.replica.Set(now, fleets) {
			p.snaps.Delete(capability)
		}
	})
	p.nudge()
}

// Snapshot returns the newest snapshot of a capability's fleet, nil if there is
// no such fleet.
func (p *Prober) Snapshot(capability string) *Snapshot {
	s, _ := p.snaps.Load(capability)
	snap, _ := s.(*Snapshot)
	return snap
}

// shortest is the least time between two looks at what is due.
const shortest = time.Microsecond

// Run probes until ctx ends, once. When it returns, no goroutine and no connection
// of it is left.
func (p *Prober) Run(ctx context.Context) {
	var underWay sync.WaitGroup
	if p.shares() {
		underWay.Go(recovery.Loop(ctx, "health feed", func() { p.follow(ctx) }))
	}
	timer := time.NewTimer(shortest)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		timer.Reset(max(p.step(ctx, &underWay), shortest))
	}
	underWay.Wait()
	p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close(p.replica.Stop())
}

// step does what is due and returns the time until more is.
func (p *Prober) step(ctx context.Context, underWay *sync.WaitGroup) time.Duration {
	var work Work
	wait := time.Hour
	p.turn(func(now time.Time) {
		work = p.replica.Step(now)
		if at, ok := p.replica.Next(); ok {
			wait = at.Sub(now)
		}
	})
	p.close(work.Given)
	for _, probe := range work.Probes {
		underWay.Go(func() { p.probe(ctx, probe) })
	}
	p.exchange(ctx, &work, underWay)
	return wait
}

// turn lets f use the replica and tells what changed.
func (p *Prober) turn(f func(now time.Time)) {
	p.mu.Lock()
	f(p.options.Clock())
	changes := p.replica.Changes()
	for _, c := range changes {
		p.snaps.Store(c.Snapshot.Capability, c.Snapshot)
		if !c.New && !c.Quiet {
			p.options.Changed(c.Snapshot)
		}
	}
	p.mu.Unlock()
	for _, c := range changes {
		p.log(c)
	}
}

// nudge makes Run look what is to be done.
func (p *Prober) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// probe makes one probe.
func (p *Prober) probe(ctx context.Context, probe *Probe) {
	if probe.client == nil {
		probe.client = &client{addr: probe.addr, tls: probe.spec.TLS, host: probe.spec.Hosts[probe.addr], dial: p.options.Dial, asks: probe.spec.Asks, dialect: probe.spec.Dialect}
	}
	attempt, cancel := context.WithTimeout(ctx, probe.Timeout())
	defer cancel()
	result := Result{Reason: recovery.ErrPanic.Error()}
	recovery.Round("probe", func() { result = probe.client.probe(attempt) })
	if ctx.Err() != nil { // it may have failed for that
		probe.client.close()
		return
	}
	p.turn(func(now time.Time) { p.replica.Probed(now, probe, result) })
	p.nudge()
}

func (p *Prober) close(given []*Probe) {
	for _, probe := range given {
		if probe.client != nil {
			probe.client.close()
		}
	}
}

// log writes a line for each transition: for all to see by the replica that probes,
// and of what is settled.
func (p *Prober) log(c Change) {
	for _, n := range c.News {
		b := &c.Snapshot.Backends[n.Index]
		level := slog.LevelInfo
		switch {
		case !n.Probed || b.State == Unknown:
			level = slog.LevelDebug
		case b.State == Down:
			level = slog.LevelWarn
		}
		if !p.options.Logger.Enabled(context.Background(), level) {
			continue
		}
		_, summary := c.Snapshot.Ready()
		said := []slog.Attr{slog.String("capability", c.Snapshot.Capability), slog.String("backend", b.Addr)}
		if b.Dialect != call.Auto { // engines have none
			said = append(said, slog.String("dialect", b.Dialect.String()))
		}
		if b.Reason != "" {
			said = append(said, slog.String("reason", b.Reason))
		}
		p.options.Logger.LogAttrs(context.Background(), level, "backend "+b.State.String(), append(said, slog.String("fleet", summary))...)
	}
}
