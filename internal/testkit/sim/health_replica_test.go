package sim_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/grpcerror"
	"github.com/capgate/capgate/internal/testkit/sim"
)

// commandTimeout is the longest time for a command, as in health's exchange.go.
const commandTimeout = 5 * time.Second

var (
	errTimeout = errors.New("no answer in time")
	errRefused = errors.New("connection refused, or read-only")
)

// healthReplica simulates a gateway's health checks. It can die and restart.
type healthReplica struct {
	p      *healthRun
	name   string
	lives  int
	asked  int           // probes and commands so far, used as ids
	ahead  time.Duration // offset of its clock
	cut    bool          // cut off from the store
	blind  bool          // its probes reach no backend
	paused bool
	life   *healthLife // nil if it is down
}

// healthLife is the time between a start and an end. Like health.Prober, it passes the time and the results of
// requested work to a health.Replica.
type healthLife struct {
	*healthReplica
	id      string
	core    *health.Replica
	over    bool
	pending canceller
	timer   *time.Timer // of the next step
	waits   bool        // the step waits for its turn
	feed    *healthFeed // nil if it does not watch the store

	probing, reading, publishing int
	replicas                     int // replicas that it knew before its last step
	snaps                        map[string]*health.Snapshot
	replied                      time.Time // time of the last reply to a heartbeat
	expedited                    map[string]time.Duration
}

func (r *healthReplica) boot() {
	r.lives++
	l := &healthLife{healthReplica: r, id: r.name, snaps: map[string]*health.Snapshot{},
		expedited: map[string]time.Duration{}}
	if r.p.Seed%2 == 0 {
		l.id = fmt.Sprint(r.name, ".", r.lives) // its configured name is "auto"
	}
	r.life = l
	l.core = health.NewReplica(health.ReplicaOptions{
		MaxConcurrent: r.p.most, Shared: true, ID: l.id, Heartbeat: r.p.heartbeat, Stale: r.p.stale,
		Reconcile: r.p.reconcile, Used: func(_, addr string) bool {
			return addr == "b0:1" || addr == "b1:1" && r.name == "r0"
		},
		Jitter: func(d time.Duration) time.Duration {
			return time.Duration(r.p.Draw(l.id+d.String()) % uint64(max(d, 1)))
		},
	})
	l.subscribe(200 * time.Millisecond)
	l.set()
}

// kill ends its life abruptly. Commands in flight may still arrive.
func (r *healthReplica) kill() {
	l := r.life
	if l == nil {
		return
	}
	l.over, r.life = true, nil
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.feed != nil {
		l.feed.stop()
	}
	l.pending.cancel()
}

// faults returns its possible faults.
func (r *healthReplica) faults() []sim.Event {
	l := r.life
	if l == nil {
		return nil
	}
	restart := func() {
		r.kill()
		lives := r.lives
		r.p.After(r.p.time(), func() {
			r.p.Expect(r.name+" starts", nil, func() {
				if r.lives == lives && !r.p.Settling() {
					r.boot()
				}
			})
		})
	}
	return []sim.Event{
		sim.Fault(r.name+" loses the store", func() { r.p.during(&r.cut); l.noticeLoss() }),
		sim.Fault(r.name+" loses the backends", func() { r.p.during(&r.blind) }),
		sim.Fault(r.name+" loses its network", func() { r.p.during(&r.blind); r.p.during(&r.cut); l.noticeLoss() }),
		sim.Fault(r.name+" pauses", func() { r.p.during(&r.paused) }),
		sim.Fault(r.name+" loses its watch", func() { l.feed.lose(l) }),
		sim.Fault(r.name+" misses an event", func() { l.feed.miss() }),
		sim.Fault(r.name+" gets an event twice", func() { l.feed.repeat(l) }),
		sim.Fault(r.name+" dies", restart),
		sim.Fault(r.name+" ends", func() {
			r.p.Expect(l.id+" → store leave", func() bool { return r.p.silent }, func() {
				_ = r.p.store.Leave(context.Background(), l.id)
			})
			restart()
		}),
		sim.Fault("calls wait at "+r.name, func() {
			l.expedited["c1"] = r.p.Now()
			l.core.Expedite(l.now(), "c1")
			l.touched()
		}),
	}
}

func (l *healthLife) now() time.Time { return time.Now().Add(l.ahead) }

// expect adds an event for it, which waits while it is paused or held.
func (l *healthLife) expect(key string, held func() bool, run func()) (cancel func()) {
	var remove func()
	own := &remove
	remove = l.p.Expect(l.name+key, func() bool { return l.paused || held != nil && held() }, func() {
		l.pending.remove(own)
		run()
	})
	l.pending.add(own)
	return func() {
		l.pending.remove(own)
		remove()
	}
}

// after adds an event for it after a time.
func (l *healthLife) after(d time.Duration, key string, run func()) (cancel func()) {
	var remove func()
	t := time.AfterFunc(d, func() { remove = l.expect(key, nil, run) })
	stop := func() { t.Stop() }
	own := &stop
	l.pending.add(own)
	return func() {
		l.pending.remove(own)
		if t.Stop(); remove != nil {
			remove()
		}
	}
}

// touched performs the work that is due after an input.
func (l *healthLife) touched() {
	now := l.now()
	work := l.core.Step(now)
	l.p.ledger.changed(l, l.core.Changes())
	l.replicas = l.core.Stats().Replicas
	for _, probe := range work.Probes {
		l.probe(probe)
	}
	if work.Heartbeat != nil {
		l.beat(*work.Heartbeat)
	}
	if len(work.Publish) > 0 {
		l.publish(work.Publish)
	}
	for _, read := range work.Reads {
		l.read(read)
	}
	l.p.ledger.bounded(l, &work)
	at, ok := l.core.Next()
	switch {
	case !ok:
		return
	case !at.After(now):
		l.p.Fail("%s has done all that is due, and is due again at once", l.name)
		return
	case l.timer != nil:
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(at.Sub(now), func() {
		if l.waits {
			return
		}
		l.waits = true
		l.expect(" steps", nil, func() {
			l.waits = false
			l.touched()
		})
	})
}

// number makes the description of a probe or command unique.
func (l *healthLife) number(what string) string {
	l.asked++
	return fmt.Sprintf("%s (%d)", what, l.asked)
}

// probe starts a probe.
func (l *healthLife) probe(probe *health.Probe) {
	addr := probe.Addr()
	b, what := l.p.backends[addr], l.number(addr)
	l.probing++
	l.p.ledger.probed(l, addr)
	var stop, cancel func()
	end := func(result health.Result) {
		stop()
		cancel()
		l.probing--
		l.p.ledger.result(l, addr, result.OK)
		l.core.OnProbe(l.now(), probe, result)
		l.touched()
	}
	cancel = l.expect(" probes "+what, func() bool { return l.blind || b.state == hangs }, func() {
		switch b.state {
		case refuses:
			end(health.Result{Refused: true, Reason: "no connection: refused"})
		case notReady:
			end(health.Result{Dialect: call.Live, Reason: b.state})
		default:
			end(health.Result{OK: true, Dialect: call.Live})
		}
	})
	stop = l.after(probe.Timeout(), " gives up its probe of "+what,
		func() { end(health.Result{Reason: grpcerror.NoAnswer}) })
}

// exchange sends a command to the store, and calls one of two functions with the reply. The command may arrive although
// the replica no longer waits or has ended.
func (l *healthLife) exchange(what string, writes bool, serve func() (reply func(now time.Time)),
	fail func(now time.Time, err error),
) {
	p := l.p
	what = l.number(what)
	var stop, cancel func()
	ended := false
	end := func(f func(now time.Time)) {
		ended = true
		stop()
		if cancel != nil {
			cancel()
		}
		f(l.now())
		l.touched()
	}
	unreachable := func() bool { return l.cut || p.silent }
	p.Expect(l.name+" → store "+what, unreachable, func() {
		reply := func(now time.Time) { fail(now, errRefused) }
		if !p.refusing && (!writes || !p.readOnly) {
			reply = serve()
		}
		switch {
		case ended || l.over:
		case !l.paused && (p.Settling() || p.rng.IntN(2) == 0):
			end(reply)
		default:
			cancel = l.expect(" ← store "+what, unreachable, func() { end(reply) })
		}
	})
	stop = l.after(commandTimeout, " gives up "+what, func() {
		end(func(now time.Time) { fail(now, errTimeout) })
	})
}

func (l *healthLife) beat(beat health.Heartbeat) {
	l.p.ledger.beats(l, beat)
	failed := func(now time.Time, err error) { l.core.OnHeartbeat(now, health.Members{}, err) }
	l.exchange("heartbeat", true, func() func(now time.Time) {
		members, err := l.p.store.Heartbeat(context.Background(), beat)
		return func(now time.Time) {
			l.replied = now
			l.core.OnHeartbeat(now, members, err)
		}
	}, failed)
}

func (l *healthLife) publish(reports []health.Report) {
	l.publishing++
	done := func(now time.Time, waiting []health.Waiting, err error) {
		l.publishing--
		l.core.OnPublish(now, reports, waiting, err)
	}
	l.exchange(describe(reports), true, func() func(now time.Time) {
		waiting, err := l.p.store.Publish(context.Background(), reports)
		return func(now time.Time) { done(now, waiting, err) }
	}, func(now time.Time, err error) { done(now, nil, err) })
}

func (l *healthLife) read(read health.ShardRead) {
	l.reading++
	done := func(now time.Time, got health.Shard, err error) {
		l.reading--
		l.core.OnShard(now, read, got, err)
	}
	l.exchange(fmt.Sprintf("read %d, full %t", read.Shard, read.Full), false, func() func(now time.Time) {
		got, err := l.p.store.Shard(context.Background(), read.Shard, read.Full)
		l.p.rng.Shuffle(len(got.Entries),
			func(i, j int) { got.Entries[i], got.Entries[j] = got.Entries[j], got.Entries[i] })
		return func(now time.Time) { done(now, got, err) }
	}, func(now time.Time, err error) { done(now, health.Shard{}, err) })
}
