package drains

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Fleets is the router. Its methods may be called from any goroutine.
type Fleets interface {
	// SetDrains replaces all drains in force.
	SetDrains([]Drain)
	// Calls returns the number in flight at a backend; 0 and false: no fleet has it.
	Calls(Key) (int64, bool)
}

const (
	busyInterval = time.Second     // interval of exchanges while any backend is drained, of few replicas
	idleInterval = 5 * time.Second // interval while none is, and the longest
	// busyEach is the part of the interval for one replica. An exchange returns the calls of all replicas, so its cost
	// grows with their number, and the interval bounds the exchanges of all of them in a second.
	busyEach    = 5 * time.Millisecond
	lastTimeout = 5 * time.Second // timeout of the final exchange
	maxName     = 256             // bytes of an operator's name that are kept
)

// ErrFull rejects a drain beyond Most.
var ErrFull = errors.New("the maximum number of backends is drained")

// Manager synchronizes the drains of one replica with the store.
type Manager struct {
	replica string
	store   Store
	fleets  Fleets
	log     *slog.Logger
	wake    chan struct{}

	exchangeMu sync.Mutex // held during an exchange

	mu        sync.Mutex
	active    map[Key]Drain // drains in force here
	pending   map[Key]bool  // changes that the store lacks: true: started, false: ended
	view      View          // the latest
	storeAway bool          // the last exchange failed
}

// New returns a Keeper. replica is its unique name.
func New(replica string, board Store, fleets Fleets, log *slog.Logger) *Manager {
	return &Manager{
		replica: replica, store: board, fleets: fleets, log: log, wake: make(chan struct{}, 1),
		active: map[Key]Drain{}, pending: map[Key]bool{},
	}
}

// Run synchronizes drains until ctx ends, and then reports that no calls are left here.
func (k *Manager) Run(ctx context.Context) {
	changefeed.Poll(ctx, "drains", k.wake, k.store.Watch, func(ctx context.Context) time.Duration {
		_ = k.exchange(ctx) // exchange logs its errors
		return k.pause()
	})
	k.leave(context.WithoutCancel(ctx))
}

// leave sends the pending changes, and reports that no calls are left here.
func (k *Manager) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	k.mu.Lock()
	report, _ := k.report()
	k.mu.Unlock()
	report.Leaving = true
	_, _ = k.store.Exchange(ctx, report) // after an error the replica soon counts as dead
}

// Read loads the shared drains, if the store answers, before a replica serves.
func (k *Manager) Read(ctx context.Context) { _ = k.exchange(ctx) }

func (k *Manager) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.active)+len(k.pending) > 0 {
		return min(max(busyInterval, time.Duration(len(k.view.Calls))*busyEach), idleInterval)
	}
	return idleInterval
}

// Set begins or ends drains for an operator, here at once. It reports whether the other replicas know them already;
// if not, they will when the store is back.
func (k *Manager) Set(ctx context.Context, keys []Key, drained bool, by string) (shared bool, err error) {
	by = untrusted.Cut(by, maxName)
	k.mu.Lock()
	if drained && len(k.active)+len(keys) > MaxDrains {
		k.mu.Unlock()
		return false, ErrFull
	}
	for _, key := range keys {
		k.pending[key] = drained
		if _, already := k.active[key]; drained && !already {
			k.active[key] = Drain{key, time.Now(), by}
		} else if !drained {
			delete(k.active, key)
		}
	}
	k.apply()
	k.mu.Unlock()
	err = k.exchange(ctx)
	if errors.Is(err, ErrFull) {
		return false, err
	}
	signal.Wake(k.wake)
	return err == nil, nil
}

// errReadOnly is the error of a read-only store.
var errReadOnly = errors.New("the store of drains accepts no writes")

// exchange sends the local knowledge to the store, and applies the view.
func (k *Manager) exchange(ctx context.Context) error {
	k.exchangeMu.Lock()
	defer k.exchangeMu.Unlock()
	k.mu.Lock()
	report, reported := k.report()
	k.mu.Unlock()
	view, err := k.store.Exchange(ctx, report)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if !k.storeAway && ctx.Err() == nil && len(k.active)+len(k.pending) > 0 {
			k.log.Warn("drains cannot be shared; the known ones stay in force", "error", err)
		}
		k.storeAway = true
		return err
	}
	k.storeAway = false
	if k.view.Epoch != "" && view.Epoch != k.view.Epoch && !view.Written {
		return errReadOnly // it has lost its content, which could not be restored
	}
	k.view = view
	if view.Written {
		maps.DeleteFunc(k.pending, func(key Key, drained bool) bool {
			was, ok := reported[key]
			return ok && was == drained
		})
	}
	next := make(map[Key]Drain, len(view.Drains))
	for _, d := range view.Drains {
		next[d.Key] = d
	}
	for key, drained := range k.pending {
		if !drained {
			delete(next, key)
		} else if _, already := next[key]; !already {
			next[key] = k.active[key]
		}
	}
	if !maps.Equal(next, k.active) {
		k.active = next
		k.apply()
	}
	switch {
	case view.Full:
		return ErrFull
	case !view.Written:
		return errReadOnly
	}
	return nil
}

// report makes the next report, and returns the pending changes in it. The caller holds k.mu.
func (k *Manager) report() (r Report, sent map[Key]bool) {
	sent = maps.Clone(k.pending)
	r = Report{Replica: k.replica, Epoch: k.view.Epoch, Calls: map[Key]int64{}}
	for key, drained := range sent {
		if drained {
			r.Set = append(r.Set, key)
		} else {
			r.End = append(r.End, key)
		}
	}
	for key, d := range k.active {
		r.Active = append(r.Active, d)
		n, known := k.fleets.Calls(key)
		if known {
			r.Known = append(r.Known, key)
		}
		r.Calls[key] = n
	}
	return r, sent
}

// apply hands the drains in force to the router. The caller holds k.mu.
func (k *Manager) apply() {
	k.fleets.SetDrains(slices.Collect(maps.Values(k.active)))
}

// Remaining is the state of one drained backend.
type Remaining struct {
	Since          time.Time
	By             string // the operator that began the drain; "": unknown
	Drained        bool
	Shared         bool  // the fields below include the other replicas
	Calls          int64 // in flight
	Unacknowledged int   // replicas that are not known to drain it yet
	Replicas       int   // replicas in these counts, including this one
}

// Remaining returns how many calls a backend still has, at all replicas.
func (k *Manager) Remaining(key Key) Remaining {
	own, _ := k.fleets.Calls(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	d, drained := k.active[key]
	l := Remaining{Since: d.Since, By: d.By, Drained: drained, Shared: !k.storeAway && k.view.Epoch != "", Calls: own,
		Replicas: 1}
	if !l.Shared {
		return l
	}
	for _, replica := range slices.Collect(maps.Keys(k.view.Calls)) {
		if replica == k.replica {
			continue
		}
		l.Replicas++
		n, reported := k.view.Calls[replica][key]
		l.Calls += n
		if !reported {
			l.Unacknowledged++
		}
	}
	return l
}
