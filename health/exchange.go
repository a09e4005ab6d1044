package health

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/signal"
)

// Shared configures how a Prober shares its work with other replicas.
type Shared struct {
	// This replica's name, unique, without spaces. auto: the host's name and a random suffix.
	ID string `yaml:"id" kind:"replica" default:"auto"`
	// Interval of heartbeats. A replica without one for a quarter longer is dead, and others take over its probes.
	// Every five intervals each compares its state with Redis, in case it missed a change. After 15 intervals without a
	// probe, 5s at least, the state of a backend is unknown, and calls may go there.
	Heartbeat time.Duration `yaml:"heartbeat" min:"200ms" max:"1m" default:"2s"`

	Membership Membership // nil: there are no other replicas
	Store      Store      // required with Membership

	Stale     time.Duration                      // see ReplicaOptions
	Reconcile time.Duration                      // see ReplicaOptions
	Used      func(capability, addr string) bool // see ReplicaOptions; must not block; one call at a time
}

// replica returns the options of the prober's Replica.
func (o *Options) replica() ReplicaOptions {
	r := ReplicaOptions{MaxConcurrent: o.MaxConcurrent}
	if s := o.Shared; s != nil {
		r.Shared = s.Membership != nil
		r.ID, r.Heartbeat, r.Stale, r.Reconcile, r.Used = s.ID, s.Heartbeat, s.Stale, s.Reconcile, s.Used
	}
	return r
}

// shares reports whether there may be other replicas.
func (p *Prober) shares() bool { return p.options.Shared != nil && p.options.Shared.Membership != nil }

const (
	exchangeTimeout = 5 * time.Second        // of one command to the membership or the store
	leaveTimeout    = 5 * time.Second        // of the last command
	watchBackoff    = 200 * time.Millisecond // until the first new Watch; doubled each time
	watchBackoffMax = 2 * time.Second
)

// exchange runs the part of work that concerns other replicas.
func (p *Prober) exchange(ctx context.Context, work *Work, inFlight *sync.WaitGroup) {
	shared := p.options.Shared
	do := func(command func(ctx context.Context) func(now time.Time)) {
		inFlight.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, exchangeTimeout)
			defer cancel()
			apply := command(bounded)
			if ctx.Err() != nil { // the command may have failed because of that
				return
			}
			p.withReplica(apply)
			signal.Wake(p.wake)
		})
	}
	if heartbeat := work.Heartbeat; heartbeat != nil {
		do(func(ctx context.Context) func(time.Time) {
			members, err := shared.Membership.Heartbeat(ctx, *heartbeat)
			return func(now time.Time) { p.replica.OnHeartbeat(now, members, err) }
		})
	}
	if reports := work.Publish; len(reports) > 0 {
		do(func(ctx context.Context) func(time.Time) {
			waiting, err := shared.Store.Publish(ctx, reports)
			return func(now time.Time) { p.replica.OnPublish(now, reports, waiting, err) }
		})
	}
	for _, read := range work.Reads {
		do(func(ctx context.Context) func(time.Time) {
			page, err := shared.Store.Shard(ctx, read.Shard, read.Full)
			return func(now time.Time) { p.replica.OnShard(now, read, page, err) }
		})
	}
}

// follow watches the store until ctx ends.
func (p *Prober) follow(ctx context.Context) {
	wait := backoff.Backoff{First: watchBackoff, Max: watchBackoffMax}
	for ctx.Err() == nil {
		began := time.Now()
		err := p.options.Shared.Store.Watch(ctx, func(n Event) {
			p.withReplica(func(now time.Time) { p.replica.OnEvent(now, n) })
			signal.Wake(p.wake)
		})
		if time.Since(began) > watchBackoffMax {
			wait.Reset()
		}
		p.options.Logger.LogAttrs(ctx, slog.LevelDebug, "lost the watch on the health store", slog.Any("error", err))
		backoff.Sleep(ctx, backoff.Jitter(wait.Next(), 0.5))
	}
}

// leave removes this replica from the membership, so that others take over its probes at once.
func (p *Prober) leave() {
	if !p.shares() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := p.options.Shared.Membership.Leave(ctx, p.options.Shared.ID); err != nil {
		p.options.Logger.LogAttrs(ctx, slog.LevelDebug,
			"could not leave the membership of replicas; the others notice within two heartbeats",
			slog.Any("error", err))
	}
}

// Stats returns the state of the prober and of its peers.
func (p *Prober) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replica.Stats()
}
