package drains

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// Fleets is the router. Its methods may be called from any goroutine.
type Fleets interface {
	// SetDrains replaces all drains in force.
	SetDrains([]Drain)
	// Calls returns the number in flight at a backend; 0 and false: no fleet has it.
	Calls(Key) (int64, bool)
}

const (
	busy = time.Second     // interval of exchanges while any backend is drained
	idle = 5 * time.Second // interval while none is
	last = 5 * time.Second // timeout of the final exchange
)

// ErrFull rejects a drain beyond Most.
var ErrFull = errors.New("as many backends are drained as may be")

// Keeper synchronizes the drains of one replica with the store.
type Keeper struct {
	replica string
	board   Board
	fleets  Fleets
	log     *slog.Logger
	wake    chan struct{}

	exchanging sync.Mutex // held during an exchange

	mu      sync.Mutex
	force   map[Key]time.Time // drains in force here, with their start
	pending map[Key]bool      // changes that the store lacks: true: begun, false: ended
	view    View              // the latest
	away    bool              // the last exchange failed
}

// New returns a Keeper. replica is its unique name.
func New(replica string, board Board, fleets Fleets, log *slog.Logger) *Keeper {
	return &Keeper{
		replica: replica, board: board, fleets: fleets, log: log, wake: make(chan struct{}, 1),
		force: map[Key]time.Time{}, pending: map[Key]bool{},
	}
}

// Run synchronizes drains until ctx ends, and then reports that no calls are left here.
func (k *Keeper) Run(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(recovery.Loop(ctx, "drains feed", func() { k.board.Follow(ctx, k.nudge) }))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			k.leave(context.WithoutCancel(ctx))
			following.Wait()
			return
		case <-k.wake:
		case <-timer.C:
		}
		recovery.Round("drains", func() { _ = k.exchange(ctx) }) // exchange logs its errors
		timer.Reset(k.pause())
	}
}

// leave sends the pending changes, and reports that no calls are left here.
func (k *Keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, last)
	defer cancel()
	k.mu.Lock()
	report, _ := k.report()
	k.mu.Unlock()
	report.Leaving = true
	_, _ = k.board.Exchange(ctx, report) // after an error the replica soon counts as dead
}

// Read loads the shared drains, if the store answers, before a replica serves.
func (k *Keeper) Read(ctx context.Context) { _ = k.exchange(ctx) }

func (k *Keeper) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.force)+len(k.pending) > 0 {
		return busy
	}
	return idle
}

// Set begins or ends drains, here at once. It reports whether the other replicas know them already; if
// not, they will when the store is back.
func (k *Keeper) Set(ctx context.Context, keys []Key, drained bool) (shared bool, err error) {
	k.mu.Lock()
	if drained && len(k.force)+len(keys) > Most {
		k.mu.Unlock()
		return false, ErrFull
	}
	for _, key := range keys {
		k.pending[key] = drained
		if _, already := k.force[key]; drained && !already {
			k.force[key] = time.Now()
		} else if !drained {
			delete(k.force, key)
		}
	}
	k.apply()
	k.mu.Unlock()
	err = k.exchange(ctx)
	if errors.Is(err, ErrFull) {
		return false, err
	}
	k.nudge()
	return err == nil, nil
}

// errUnwritten is the error of a read-only store.
var errUnwritten = errors.New("the store of drains accepts no writes")

// exchange sends the local knowledge to the store, and applies the view.
func (k *Keeper) exchange(ctx context.Context) error {
	k.exchanging.Lock()
	defer k.exchanging.Unlock()
	k.mu.Lock()
	report, told := k.report()
	k.mu.Unlock()
	view, err := k.board.Exchange(ctx, report)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if !k.away && ctx.Err() == nil && len(k.force)+len(k.pending) > 0 {
			k.log.Warn("drains cannot be shared: what is known stays in force", "error", err)
		}
		k.away = true
		return err
	}
	k.away = false
	if k.view.Epoch != "" && view.Epoch != k.view.Epoch && !view.Written {
		return errUnwritten // it has lost its content, which could not be restored
	}
	k.view = view
	if view.Written {
		maps.DeleteFunc(k.pending, func(key Key, drained bool) bool { was, ok := told[key]; return ok && was == drained })
	}
	next := make(map[Key]time.Time, len(view.Drains))
	for _, d := range view.Drains {
		next[d.Key] = d.Since
	}
	for key, drained := range k.pending {
		if !drained {
			delete(next, key)
		} else if _, already := next[key]; !already {
			next[key] = k.force[key]
		}
	}
	if !maps.Equal(next, k.force) {
		k.force = next
		k.apply()
	}
	switch {
	case view.Full:
		return ErrFull
	case !view.Written:
		return errUnwritten
	}
	return nil
}

// report makes the next report, and returns the pending changes in it. The caller holds k.mu.
func (k *Keeper) report() (r Report, told map[Key]bool) {
	told = maps.Clone(k.pending)
	r = Report{Replica: k.replica, Epoch: k.view.Epoch, Calls: map[Key]int64{}}
	for key, drained := range told {
		if drained {
			r.Set = append(r.Set, key)
		} else {
			r.End = append(r.End, key)
		}
	}
	for key, since := range k.force {
		r.Held = append(r.Held, Drain{key, since})
		n, known := k.fleets.Calls(key)
		if known {
			r.Known = append(r.Known, key)
		}
		r.Calls[key] = n
	}
	return r, told
}

// apply hands the drains in force to the router. The caller holds k.mu.
func (k *Keeper) apply() {
	all := make([]Drain, 0, len(k.force))
	for key, since := range k.force {
		all = append(all, Drain{key, since})
	}
	k.fleets.SetDrains(all)
}

// Left is the state of one drained backend.
type Left struct {
	Since    time.Time
	Drained  bool
	Shared   bool  // the fields below include the other replicas
	Calls    int64 // in flight
	Unheard  int   // replicas that are not known to drain it yet
	Replicas int   // replicas in these counts, including this one
}

// Left returns how many calls a backend still has, at all replicas.
func (k *Keeper) Left(key Key) Left {
	own, _ := k.fleets.Calls(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	since, drained := k.force[key]
	l := Left{Since: since, Drained: drained, Shared: !k.away && k.view.Epoch != "", Calls: own, Replicas: 1}
	if !l.Shared {
		return l
	}
	for _, replica := range slices.Collect(maps.Keys(k.view.Calls)) {
		if replica == k.replica {
			continue
		}
		l.Replicas++
		n, heard := k.view.Calls[replica][key]
		l.Calls += n
		if !heard {
			l.Unheard++
		}
	}
	return l
}
