package health

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// Options configure a Prober. The zero value works.
type Options struct {
	// Changed receives the fleet's new snapshot after every transition, in order. One call runs at
	// a time; it must not block, and must not call Set.
	Changed func(*Snapshot)
	// Silent receives a backend that did not answer a probe in time, of this replica, or of another one that found it
	// Down for that. It may be called often, must not block, and must not call Set. Default: no call.
	Silent func(capability, addr string)
	// Logger gets one line per transition; default: discarded.
	Logger *slog.Logger
	// MaxConcurrent bounds the concurrent probes; default 64.
	MaxConcurrent int
	// Dial connects to a host:port; default TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Clock is the local time, which may be wrong but must not jump; default time.Now.
	Clock func() time.Time
	// Shared configures sharing of the work with other replicas; default nil: not shared.
	Shared *Shared
}

// Prober periodically probes every backend of its fleets. It supplies a Replica with time,
// network and goroutines.
type Prober struct {
	options Options
	mu      sync.Mutex // held while replica is used, and while Changed runs
	replica *Replica
	snaps   sync.Map      // capability → *Snapshot, the latest
	wake    chan struct{} // signals that the replica may have work; capacity one

	wantedMu sync.Mutex
	wanted   map[string]struct{} // capabilities to Expedite
}

// New returns a Prober. Every backend is Unknown in its snapshots until Run.
func New(fleets []Fleet, options Options) *Prober {
	if options.Changed == nil {
		options.Changed = func(*Snapshot) {}
	}
	if options.Silent == nil {
		options.Silent = func(string, string) {}
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

// Set replaces the fleets that are probed; it may be called at any time. A backend that
// stays, with its capability, address, probe and dialect, keeps its state. An unchanged fleet
// costs a comparison of its addresses. Options.Changed is called for fleets whose backends
// changed, but not for new fleets, in which every state is unknown: its receiver should have a
// fleet before Set does.
func (p *Prober) Set(fleets []Fleet) {
	p.withReplica(func(now time.Time) {
		for _, capability := range p.replica.Set(now, fleets) {
			p.snaps.Delete(capability)
		}
	})
	signal.Wake(p.wake)
}

// Snapshot returns the latest snapshot of a capability's fleet, or nil if there is no such
// fleet.
func (p *Prober) Snapshot(capability string) *Snapshot {
	s, _ := p.snaps.Load(capability)
	snap, _ := s.(*Snapshot)
	return snap
}

// Expedite requests early probes of a fleet without a ready backend, for which a call waits. The probes are bounded,
// however often it is called. It does not block.
func (p *Prober) Expedite(capability string) {
	p.wantedMu.Lock()
	if p.wanted == nil {
		p.wanted = map[string]struct{}{}
	}
	if len(p.wanted) < maxWanted {
		p.wanted[capability] = struct{}{}
	}
	p.wantedMu.Unlock()
	signal.Wake(p.wake)
}

// shortest is the least time between two steps.
const shortest = time.Microsecond

// Run probes until ctx ends. It may be called once. When it returns, all its goroutines and
// connections have ended.
func (p *Prober) Run(ctx context.Context) {
	var inFlight sync.WaitGroup
	if p.shares() {
		inFlight.Go(recovery.Loop(ctx, "health feed", func() { p.follow(ctx) }))
	}
	for wait := shortest; ctx.Err() == nil; {
		signal.Wait(ctx, p.wake, wait)
		wait = max(p.step(ctx, &inFlight), shortest)
	}
	inFlight.Wait()
	p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close(p.replica.Stop())
}

// step does what is due and returns the time until the next step.
func (p *Prober) step(ctx context.Context, inFlight *sync.WaitGroup) time.Duration {
	var work Work
	wait := time.Hour
	p.wantedMu.Lock()
	wanted := p.wanted
	p.wanted = nil
	p.wantedMu.Unlock()
	p.withReplica(func(now time.Time) {
		for capability := range wanted {
			p.replica.Expedite(now, capability)
		}
		work = p.replica.Step(now)
		if at, ok := p.replica.Next(); ok {
			wait = at.Sub(now)
		}
	})
	p.close(work.Released)
	for _, probe := range work.Probes {
		inFlight.Go(func() { p.probe(ctx, probe) })
	}
	if work.Reach != nil {
		inFlight.Go(func() { p.probe(ctx, work.Reach) })
	}
	p.exchange(ctx, &work, inFlight)
	return wait
}

// withReplica calls f with the replica, then publishes the changes.
func (p *Prober) withReplica(f func(now time.Time)) {
	p.mu.Lock()
	f(p.options.Clock())
	changes := p.replica.Changes()
	for _, c := range changes {
		p.snaps.Store(c.Snapshot.Capability, c.Snapshot)
		if !c.New && !c.ProberOnly {
			p.options.Changed(c.Snapshot)
		}
	}
	silent := p.replica.Silent()
	p.mu.Unlock()
	for _, c := range changes {
		p.log(c)
	}
	for _, k := range silent {
		p.options.Silent(k.Capability, k.Addr)
	}
}

// probe makes one probe.
func (p *Prober) probe(ctx context.Context, probe *Probe) {
	if probe.client == nil {
		probe.client = &client{
			addr: probe.addr, tls: probe.spec.TLS, host: probe.spec.Hosts[probe.addr], dial: p.options.Dial,
			question: probe.spec.Asks, dialect: probe.spec.Dialect, services: probe.spec.Services,
		}
	}
	attempt, cancel := context.WithTimeout(ctx, probe.Timeout())
	defer cancel()
	result := Result{Reason: recovery.ErrPanic.Error()}
	recovery.Round("probe", func() { result = probe.client.probe(attempt) })
	if ctx.Err() != nil { // the probe may have failed because of that
		probe.client.close()
		return
	}
	if probe.reaches {
		probe.client.close()
		p.checked(result)
		return
	}
	p.withReplica(func(now time.Time) { p.replica.OnProbe(now, probe, result) })
	signal.Wake(p.wake)
}

// checked takes the result of a check of this replica's own network.
func (p *Prober) checked(result Result) {
	var before, after bool
	p.withReplica(func(now time.Time) {
		before = p.replica.CutOff()
		p.replica.OnReach(now, result)
		after = p.replica.CutOff()
	})
	switch {
	case after && !before:
		p.options.Logger.Warn("this replica reaches no backend, and others do: it is not ready", "reason",
			result.Reason)
	case before && !after:
		p.options.Logger.Info("this replica reaches backends again")
	}
}

// close closes the connections of probes that ended.
func (p *Prober) close(released []*Probe) {
	for _, probe := range released {
		if probe.client != nil {
			probe.client.close()
		}
	}
}

// log writes a line for each transition. The level is above debug only at the replica that
// probes the backend, and only for a confirmed state.
func (p *Prober) log(c Change) {
	for _, n := range c.Transitions {
		b := &c.Snapshot.Backends[n.Index]
		level, message := slog.LevelInfo, "backend "+b.State.String()
		if b.Recovering() {
			message = "backend recovering"
		}
		switch {
		case !n.Probed || b.State == Unknown:
			level = slog.LevelDebug
		case b.State == Down && !b.Recovering():
			level = slog.LevelWarn
		}
		if !p.options.Logger.Enabled(context.Background(), level) {
			continue
		}
		_, summary := c.Snapshot.Ready()
		attrs := []slog.Attr{slog.String("capability", c.Snapshot.Capability), slog.String("backend", b.Addr)}
		if b.Dialect != call.Auto { // backends of other protocols have none
			attrs = append(attrs, slog.String("dialect", b.Dialect.String()))
		}
		if b.Reason != "" {
			attrs = append(attrs, slog.String("reason", b.Reason))
		}
		p.options.Logger.LogAttrs(context.Background(), level, message,
			append(attrs, slog.String("fleet", summary))...)
	}
}
