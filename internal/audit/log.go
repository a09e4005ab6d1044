package audit

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
	"github.com/capgate/capgate/internal/telemetry"
)

// Config configures a Log. Without Path and Out nothing is written, and Changed is all that changes are for.
type Config struct {
	// A file, as in /var/log/capgate/audit.log, or stdout.
	Path string `yaml:"to" kind:"file" required:""` // created with mode 0600
	// true: calls are rejected while they cannot be recorded.
	Required bool `yaml:"required" default:"false"` // Reserve fails

	Out io.Writer // destination without a Path
	// bound of pending records, and with Required of running calls; a record takes up to 2 KiB, usually much less;
	// default 8192
	Queue    int
	Replica  string // the gateway's replica
	Version  string // the gateway's version
	Log      *slog.Logger
	Now      func() time.Time // default time.Now
	Retry    time.Duration    // interval of attempts while writing fails; default 1 s
	Patience time.Duration    // time to write the last records in Close; default 5 s
	Changed  func(*Change)    // optional; called with each change, which it must not keep. It must not block.
}

const (
	defaultQueue = 8192
	syncEvery    = time.Second // greatest interval of fsyncs of a file
)

// Lost is the reason why a record was not written.
type Lost uint8

// The reasons.
const (
	QueueFull Lost = iota // records came faster than they could be written
	SinkFailed
	Closed // the process ended
	numLost
)

func (l Lost) String() string { return [numLost]string{"queue_full", "sink_failed", "closed"}[l] }

// Log is an audit log. Its methods may be called from any goroutine.
type Log struct {
	cfg     Config
	sink    sink // the writer's
	head    Head // of the written records; the writer's
	failing atomic.Bool
	written atomic.Uint64
	lost    [numLost]atomic.Uint64

	wake     chan struct{} // capacity 1: records are pending
	reopen   chan struct{} // capacity 1
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed by the writer
	stopOnce sync.Once

	mu         sync.Mutex // held for a copy of one record, or a swap
	pending    []byte     // whole records, not chained yet
	count      int        // of them
	reserved   int        // places of running calls
	unrecorded [numLost]int64
	closed     bool
}

// Open opens a Log and begins to write to it.
func Open(cfg Config) (*Log, error) {
	if cfg.Queue <= 0 {
		cfg.Queue = defaultQueue
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Retry <= 0 {
		cfg.Retry = time.Second
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Path == "" && cfg.Out == nil {
		return &Log{cfg: cfg}, nil
	}
	l := &Log{cfg: cfg, wake: make(chan struct{}, 1), reopen: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
	var cut int64
	if cfg.Path == "" {
		l.sink = &stream{out: cfg.Out}
	} else {
		var err error
		if l.sink, l.head, cut, err = openFile(cfg.Path); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	go l.run(l.startRecord("process", cut))
	return l, nil
}

// startRecord returns the first record of a process or a file.
func (l *Log) startRecord(why string, cut int64) []byte {
	b := begin(nil, "start", l.cfg.Now()).str("replica", l.cfg.Replica).str("version", l.cfg.Version).str("why", why)
	if cut > 0 {
		b = b.number("cut_bytes", cut)
	}
	return b.end()
}

// Reserve reserves the place of a call's record. If it returns false, the call must not be made, as it could not be
// recorded. Each true requires one RecordCall or Release.
func (l *Log) Reserve() bool {
	if !l.cfg.Required {
		return true
	}
	if l.failing.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.count+l.reserved >= l.cfg.Queue {
		return false
	}
	l.reserved++
	return true
}

// Blocked reports whether Reserve rejects every call, as records cannot be written.
func (l *Log) Blocked() bool { return l.cfg.Required && l.failing.Load() }

// Release returns the place of a call that is not recorded.
func (l *Log) Release() {
	if l.cfg.Required {
		l.mu.Lock()
		l.reserved--
		l.mu.Unlock()
	}
}

// RecordCall records a call that has ended; admitted: Reserve was called for it. It does not retain rec.
func (l *Log) RecordCall(rec *telemetry.Record, admitted bool) {
	var scratch [2048]byte // built outside of the lock, on the stack
	l.queue(appendCall(scratch[:0], rec), admitted && l.cfg.Required)
}

// Written reports whether records are written. Otherwise only RecordChange has an effect.
func (l *Log) Written() bool { return l.cfg.Path != "" || l.cfg.Out != nil }

// RecordChange records a change. A nil Log records nothing.
func (l *Log) RecordChange(c *Change) {
	if l == nil {
		return
	}
	if l.cfg.Changed != nil {
		l.cfg.Changed(c)
	}
	if l.Written() {
		l.queue(c.append(nil, l.cfg.Now()), false)
	}
}

func (l *Log) queue(rec []byte, reserved bool) {
	l.mu.Lock()
	if reserved {
		l.reserved--
	}
	if l.closed || l.count+l.reserved >= l.cfg.Queue && !reserved {
		why := QueueFull
		switch {
		case l.closed:
			why = Closed
		case l.failing.Load():
			why = SinkFailed
		}
		l.unrecorded[why]++
		l.mu.Unlock()
		l.lost[why].Add(1)
		return
	}
	l.pending = append(l.pending, rec...)
	l.count++
	first := l.count == 1
	l.mu.Unlock()
	if first {
		signal.Wake(l.wake)
	}
}

// Reopen reopens the file at once, after it was moved. The chain continues in the new file.
func (l *Log) Reopen() { signal.Wake(l.reopen) }

// Close writes the pending records, within Config.Patience.
func (l *Log) Close() {
	if !l.Written() {
		return
	}
	l.stopOnce.Do(func() { close(l.stop) })
	select {
	case <-l.done:
	case <-time.After(l.cfg.Patience + time.Second): // the sink blocks
	}
}

// Stats are counts of a Log.
type Stats struct {
	Written uint64
	Lost    [numLost]uint64 // by Lost
	Failing bool            // the last write failed
}

// Stats is safe for concurrent use.
func (l *Log) Stats() Stats {
	s := Stats{Written: l.written.Load(), Failing: l.failing.Load()}
	for i := range s.Lost {
		s.Lost[i] = l.lost[i].Load()
	}
	return s
}
