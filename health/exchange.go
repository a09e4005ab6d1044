package health

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Shared is how a Prober shares its work with those of other replicas.
type Shared struct {
	ID    string // of this replica: unique, without spaces
	Roll  Roll   // nil: there are no others
	Board Board  // with Roll

	Heartbeat time.Duration                      // see ReplicaOptions
	Stale     time.Duration                      // see ReplicaOptions
	Reconcile time.Duration                      // see ReplicaOptions
	Used      func(capability, addr string) bool // see ReplicaOptions; must not block; one call at a time
}

func (o *Options) replica() ReplicaOptions {
	r := ReplicaOptions{MaxConcurrent: o.MaxConcurrent}
	if s := o.Shared; s != nil {
		r.Shared = s.Roll != nil
		r.ID, r.Heartbeat, r.Stale, r.Reconcile, r.Used = s.ID, s.Heartbeat, s.Stale, s.Reconcile, s.Used
	}
	return r
}

// shares says whether there may be others.
func (p *Prober) shares() bool { return p.options.Shared != nil && p.options.Shared.Roll != nil }

const (
	exchangeTimeout = 5 * time.Second        // of one command to the roll or the board
	leaveTimeout    = 5 * time.Second        // of the last
	followAgain     = 200 * time.Millisecond // until the board is followed again; twice as long each time
	followLongest   = 2 * time.Second
)

// exchange does that part of the work that concerns other replicas.
func (p *Prober) exchange(ctx context.Context, work *Work, underWay *sync.WaitGroup) {
	shared := p.options.Shared
	do := func(command func(ctx context.Context) func(now time.Time)) {
		underWay.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, exchangeTimeout)
			defer cancel()
			took := command(bounded)
			if ctx.Err() != nil { // it may have failed for that
				return
			}
			p.turn(took)
			p.nudge()
		})
	}
	if beat := work.Beat; beat != nil {
		do(func(ctx context.Context) func(time.Time) {
			members, err := shared.Roll.Beat(ctx, *beat)
			return func(now time.Time) { p.replica.Beaten(now, members, err) }
		})
	}
	if reports := work.Post; len(reports) > 0 {
		do(func(ctx context.Context) func(time.Time) {
			err := shared.Board.Post(ctx, reports)
			return func(now time.Time) { p.replica.Posted(now, reports, err) }
		})
	}
	for _, read := range work.Reads {
		do(func(ctx context.Context) func(time.Time) {
			page, err := shared.Board.Page(ctx, read.Page, read.Whole)
			return func(now time.Time) { p.replica.Read(now, read, page, err) }
		})
	}
}

// follow hears what others tell until ctx ends.
func (p *Prober) follow(ctx context.Context) {
	wait := followAgain
	for ctx.Err() == nil {
		began := time.Now()
		err := p.options.Shared.Board.Follow(ctx, func(n Notice) {
			p.turn(func(now time.Time) { p.replica.Noticed(now, n) })
			p.nudge()
		})
		if time.Since(began) > followLongest {
			wait = followAgain
		}
		p.options.Logger.LogAttrs(ctx, slog.LevelDebug, "health board lost", slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(vary(wait, 0.5)):
		}
		wait = min(2*wait, followLongest)
	}
}

// leave takes this replica off the roll, so that others probe at once what it did.
func (p *Prober) leave() {
	if !p.shares() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := p.options.Shared.Roll.Leave(ctx, p.options.Shared.ID); err != nil {
		p.options.Logger.LogAttrs(ctx, slog.LevelDebug, "could not leave the roll of replicas; others notice within two heartbeats", slog.Any("error", err))
	}
}

// Stats returns how the prober and its neighbours are doing.
func (p *Prober) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replica.Stats()
}
