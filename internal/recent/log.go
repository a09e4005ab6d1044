package recent

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/telemetry"
)

const (
	// maxBatch bounds the calls that a replica publishes at once; together with callPause it bounds the load on Redis.
	// With the embedded store, more would cost as much as the calls themselves.
	maxBatch  = 100
	pause     = 250 * time.Millisecond // after each batch
	callPause = 10 * time.Millisecond  // at least, for each call of the batch
	// many is the number of replicas up to which these pauses hold. With more, the pauses are longer, so that all
	// together put as much load on Redis; up to tenfold.
	many = 100
	beat = 5 * time.Second
	// maxWaiting bounds the changes that wait for Redis.
	maxWaiting = 1000
)

// Config has the settings of a Log.
type Config struct {
	// How many calls of all replicas are kept, in Redis and in the memory of each replica; 0: none, and none are
	// counted. All replicas should have the same value. A call takes 0.4 KiB of memory, at most 3 KiB with long texts.
	// A replica with many calls a second has room for up to 17 times as many.
	Keep int `yaml:"keep" min:"0" max:"5000" default:"500"`
	// Bounds are those of the Archive.
	Bounds Bounds `yaml:",inline"`

	Replica string // name of this replica
	// Replicas returns the number of replicas that share the Store; nil: it has one.
	Replicas func() int
	Store    Store          // nil: this replica is alone
	Self     func() Replica // what this replica says of itself, but for ID and Seen; nil: nothing
	Now      func() time.Time
	Archive  Archive      // nil: calls are kept in the Store alone
	Log      *slog.Logger // default discards
}

// Log has the last calls, changes and counts. All its methods may be called from any goroutine.
type Log struct {
	cfg     Config
	process string        // begins the ids of this process
	wake    chan struct{} // capacity 1: something is to be published
	hub     hub

	cells []cell // the calls since the last merge

	mu      sync.Mutex // held for a merge, and for the copy of a batch
	ring    *ring      // the calls up to the last merge; nil: no calls are kept
	spares  []ring     // empty; merge exchanges them with those of the cells
	own     minutes    // of this replica
	unsaid  minutes    // not published yet
	waiting []Change   // not published yet
	changes []Change   // of this replica, the oldest first
	number  uint64     // of the last change
	kept    kept
}

// New returns a Log. Run publishes what it records.
func New(cfg Config) *Log {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{cfg: cfg, process: strings.ToLower(rand.Text()[:10]), wake: make(chan struct{}, 1), own: minutes{},
		unsaid: minutes{}}
	if cfg.Keep > 0 {
		l.ring = newRing(cfg.Keep)
		l.divide(telemetry.Cells())
	}
	l.hub.store = cfg.Store
	return l
}

// On reports whether calls are kept.
func (l *Log) On() bool { return l.ring != nil }

// Replica returns the name of this replica.
func (l *Log) Replica() string { return l.cfg.Replica }

// Record records a call. It neither blocks nor keeps rec, and it does not allocate for a tenant that is known.
func (l *Log) Record(rec *telemetry.Record) {
	if l.ring == nil {
		return
	}
	c := l.cellOf(rec.Shard)
	c.mu.Lock()
	o := c.ring.owner(rec.Call.Tenant)
	o.counts.Calls++
	switch rec.Result() {
	case telemetry.Asked:
		o.counts.Asked++
	case telemetry.Refused:
		o.counts.Refusals++
	case telemetry.Failed:
		o.counts.Errors++
	case telemetry.ToolFailed:
		o.counts.ToolErrors++
	case telemetry.Answered, telemetry.NumResults:
	}
	if !rec.Quiet {
		c.ring.add(o, rec)
	}
	c.mu.Unlock()
	signal.Wake(l.wake)
}

// RecordChange records a change; its ID, Replica and time are set.
func (l *Log) RecordChange(c *Change) {
	d := c.bounded()
	d.At, d.Replica = l.cfg.Now().UTC(), l.cfg.Replica
	l.mu.Lock()
	l.number++
	d.ID = l.process + "-" + strconv.FormatUint(l.number, 10)
	l.changes = appendBounded(l.changes, d, MaxChanges)
	if l.cfg.Store != nil {
		l.waiting = appendBounded(l.waiting, d, maxWaiting)
	}
	l.mu.Unlock()
	signal.Wake(l.wake)
}

func appendBounded(list []Change, c Change, most int) []Change {
	if len(list) >= most {
		list = slices.Delete(list, 0, len(list)-most+1)
	}
	return append(list, c)
}

// Run publishes until ctx ends. While the store does not respond, calls wait in their slots, and displace each other.
func (l *Log) Run(ctx context.Context) {
	if l.cfg.Store != nil {
		defer func() { // an error means that others find out by the silence
			_ = l.cfg.Store.Leave(context.WithoutCancel(ctx), l.cfg.Replica)
		}()
	}
	said, calls := time.Time{}, 0
	for {
		recovery.Round("recent calls", func() { said, calls = l.publish(ctx, said) })
		rest := l.pauseAfter(calls) // at most one batch in a pause
		backoff.Sleep(ctx, rest)
		if !l.pending() && rest < beat {
			signal.Wait(ctx, l.wake, beat-rest)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// pauseAfter returns the pause after a batch with a number of calls.
func (l *Log) pauseAfter(calls int) time.Duration {
	replicas := many
	if l.cfg.Replicas != nil {
		replicas = min(max(l.cfg.Replicas(), many), 10*many)
	}
	return max(pause, time.Duration(calls)*callPause) * time.Duration(replicas) / many
}

// pending reports whether there are calls that did not fit the last batch.
func (l *Log) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ring != nil && l.ring.unsent > 0
}

// publish publishes one batch, and what the replica says of itself if that was last said a beat before. It returns
// when that was, and how many calls the batch had.
func (l *Log) publish(ctx context.Context, said time.Time) (time.Time, int) {
	now := l.cfg.Now()
	b, sent := l.batch(now)
	if l.cfg.Self != nil && l.cfg.Store != nil && now.Sub(said) >= beat {
		self := l.self(now)
		b.Replica, said = &self, now
	}
	if b.Empty() {
		return said, 0
	}
	if l.cfg.Store == nil {
		l.hub.pass(b.Calls)
		return said, len(b.Calls)
	}
	if err := l.cfg.Store.Publish(ctx, b, l.cfg.Keep); err != nil {
		l.restore(b, sent)
		l.hub.pass(b.Calls) // the watchers at this replica at least
		return time.Time{}, len(b.Calls)
	}
	if l.Archived() && len(b.Calls) > 0 {
		l.archive(ctx, b.Calls)
	}
	return said, len(b.Calls)
}

// self describes this replica.
func (l *Log) self(now time.Time) Replica {
	var r Replica
	if l.cfg.Self != nil {
		r = l.cfg.Self()
	}
	r.ID, r.Seen = l.cfg.Replica, now.UTC()
	return r
}

// batch takes the unpublished calls and changes. sent has the sequence numbers of its calls by their slots.
func (l *Log) batch(now time.Time) (b *Batch, sent map[int32]uint64) {
	b, sent = &Batch{}, map[int32]uint64{}
	var slots []slot
	l.mu.Lock()
	if l.ring != nil {
		l.merge(now)
		slots = l.ring.take(sent)
	}
	b.Minutes, l.unsaid = l.unsaid, minutes{}
	b.Changes, l.waiting = l.waiting, nil
	l.mu.Unlock()
	for i := range slots {
		b.Calls = append(b.Calls, slots[i].call(l.cfg.Replica, l.process))
	}
	return b, sent
}

// restore takes back a batch that could not be published.
func (l *Log) restore(b *Batch, sent map[int32]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring != nil {
		l.ring.restore(sent)
	}
	for minute, counts := range b.Minutes {
		for tenant, c := range counts {
			l.unsaid.add(minute, tenant, c)
		}
	}
	later := l.waiting
	l.waiting = b.Changes
	for i := range later {
		l.waiting = appendBounded(l.waiting, later[i], maxWaiting)
	}
}
