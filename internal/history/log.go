package history

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/telemetry"
)

const (
	look    = 10 * time.Second // between two looks at the backends
	publish = time.Minute
	// maxLate bounds the minutes that wait for a store that does not respond. Older ones are lost.
	maxLate = 15
	// maxWaiting bounds the marks that wait for the store.
	maxWaiting = 20
)

// Config has the settings of a Log. Store, Knows and States are required unless Series is 0.
type Config struct {
	// How many series of each of the four kinds Redis keeps; further ones count as other. 0: none, and no history is
	// kept. 100 series that are called in every minute of a week need up to 7 MB in Redis.
	Series int `yaml:"series" min:"0" max:"5000" default:"200"`

	Replica string
	Version string
	Store   Store
	// Knows reports whether a capability has a tool. Other names are counted together.
	Knows func(capability, tool string) bool
	// States returns the backends of all fleets.
	States func() []State
	Now    func() time.Time // default time.Now
}

// State is whether a backend gets calls.
type State struct {
	Capability, Backend string
	Usable              bool
}

// Log counts calls. All its methods may be called from any goroutine.
type Log struct {
	cfg          Config
	cells        []cell        // the calls of routes, by shard
	publications atomic.Uint64 // number of them; a route begins again after each

	mu      sync.Mutex     // a goroutine that holds it takes no lock of a cell
	pending *points        // since the last publication, without what the cells have
	late    []*points      // that the store has not accepted, the oldest first
	marks   []Mark         // not published yet
	others  map[Kind]int64 // calls of series without a place of their own, since the start
}

// New returns a Log. Run publishes what it records.
func New(cfg Config) *Log {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Log{cfg: cfg, pending: newPoints(cfg.Series, 1), others: map[Kind]int64{}}
	if l.On() {
		l.cells = make([]cell, telemetry.Cells())
	}
	return l
}

// On reports whether a history is kept.
func (l *Log) On() bool { return l != nil && l.cfg.Series > 0 }

// Record counts a call. It neither blocks nor keeps rec, and it does not allocate for series that are known.
func (l *Log) Record(rec *telemetry.Record) {
	if !l.On() {
		return
	}
	capability, tool := rec.Capability.Name(), rec.Call.Tool
	if capability != "" && tool != "" && !l.cfg.Knows(capability, tool) {
		tool = Other
	}
	c := countingOf(rec)
	cell := l.cellOf(rec.Shard)
	cell.mu.Lock()
	defer cell.mu.Unlock()
	at := cell.routeAt(tool, rec)
	if at.since == l.publications.Load() && at.is(capability, tool, rec) {
		at.add(&c)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var r route
	all := true
	if capability != "" {
		r.fleet = l.count(Series{Kind: Fleet, Group: capability}, &c, &all)
		if tool != "" {
			r.tool = l.count(Series{Kind: Tool, Group: capability, Name: tool}, &c, &all)
		}
		if rec.Backend != "" {
			r.backend = l.count(Series{Kind: Backend, Group: capability, Name: rec.Backend}, &c, &all)
		}
	}
	if rec.Call.Tenant != "" {
		r.tenant = l.count(l.pending.tenant(rec.Call.Tenant, rec.TenantUID), &c, &all)
	}
	if all {
		l.flush(at)
		r.since = l.publications.Load()
		*at = r
	}
}

// count adds a call to a series, or to the others of its kind, and sets all to false for those. l.mu must be held.
func (l *Log) count(of Series, c *counting, all *bool) *counted {
	point, apart := l.pending.of(of)
	point.add(c)
	if !apart {
		l.others[of.Kind]++
		*all = false
	}
	return point
}

// Mark adds a mark of this replica.
func (l *Log) Mark(kind, text string) {
	if !l.On() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.marks) < maxWaiting {
		l.marks = append(l.marks, Mark{At: l.cfg.Now().UTC(), Kind: kind, Replica: l.cfg.Replica, Text: text})
	}
}

// Run looks at backends, and publishes, until ctx ends. Then it publishes the rest.
func (l *Log) Run(ctx context.Context) {
	if !l.On() {
		return
	}
	l.Mark(Started, l.cfg.Version)
	recovery.Round("history", func() { _ = l.Adopt(ctx) }) // after an error, this replica chooses by itself
	var last time.Time
	for {
		recovery.Round("history", l.Look)
		if now := l.cfg.Now(); now.Sub(last) >= publish {
			recovery.Round("history", func() { _ = l.Publish(ctx) }) // what failed is published later
			last = now
		}
		if !backoff.Sleep(ctx, look) {
			_ = l.Publish(context.WithoutCancel(ctx)) // an error means that the last minute is missing
			return
		}
	}
}

// Look counts the state of all backends.
func (l *Log) Look() {
	states := l.cfg.States()
	fleets := map[string]bool{}
	for _, s := range states {
		fleets[s.Capability] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.groups = max(1, len(fleets))
	for _, s := range states {
		fleet, _ := l.pending.of(Series{Kind: Fleet, Group: s.Capability})
		fleet.look(s.Usable)
		backend, _ := l.pending.of(Series{Kind: Backend, Group: s.Capability, Name: s.Backend})
		backend.look(s.Usable)
	}
}

// Publish adds what was counted to the store. What cannot be added is tried again with the next Publish, up to maxLate
// times. If the store has added a batch of points and its response was lost, that batch counts twice.
func (l *Log) Publish(ctx context.Context) error {
	l.collect()
	l.mu.Lock()
	l.pending.at = l.cfg.Now()
	late, marks := append(l.late, l.pending), l.marks
	l.pending, l.late, l.marks = l.pending.next(), nil, nil
	l.publications.Add(1)
	l.mu.Unlock()
	err := l.send(ctx, &late, &marks)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = late[max(0, len(late)-maxLate):]
	l.marks = append(marks, l.marks...)[:min(len(marks)+len(l.marks), maxWaiting)]
	return err
}

// send adds points and marks to the store, and removes those that it has accepted.
func (l *Log) send(ctx context.Context, late *[]*points, marks *[]Mark) error {
	for ; len(*late) > 0; *late = (*late)[1:] {
		p := (*late)[0]
		if p.unsent == nil {
			p.unsent = p.entries()
		}
		for len(p.unsent) > 0 {
			n := min(len(p.unsent), MaxEntries)
			if err := l.cfg.Store.Add(ctx, p.unsent[:n], kinds*2*l.cfg.Series); err != nil {
				return err
			}
			p.unsent = p.unsent[n:]
		}
	}
	for ; len(*marks) > 0; *marks = (*marks)[1:] {
		if err := l.cfg.Store.Mark(ctx, &(*marks)[0]); err != nil {
			return err
		}
	}
	return nil
}
