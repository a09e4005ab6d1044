package audit

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config is how a Log is set up. Either Path or Out is required.
type Config struct {
	Path     string    // file that is written to, and made with mode 0600
	Out      io.Writer // where records go if there is no Path
	Required bool      // Admit refuses while records cannot be written
	// records that wait, and of a Required Log calls that run; each may have 2 KiB and seldom has one; default
	// 8192
	Queue    int
	Replica  string // who writes
	Version  string // of what
	Log      *slog.Logger
	Now      func() time.Time // default time.Now
	Retry    time.Duration    // from one try to write to the next, while that fails; default 1 s
	Patience time.Duration    // for the last records when it is closed; default 5 s
}

const (
	defaultQueue = 8192
	syncEvery    = time.Second // file: what was written is on the disk after it, at the latest
)

// Lost is why a record was not written.
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
	head    Head // of what is in the sink; the writer's
	failing atomic.Bool
	written atomic.Uint64
	lost    [numLost]atomic.Uint64

	wake     chan struct{} // capacity 1: there is something to write
	reopen   chan struct{} // capacity 1
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed by the writer
	stopOnce sync.Once

	mu         sync.Mutex // held for a copy of one record, or a swap
	pending    []byte     // whole records, without their chain
	count      int        // of them
	reserved   int        // places of calls that run
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
	go l.run(l.begun("process", cut))
	return l, nil
}

// begun is the record that a process, or a file, begins with.
func (l *Log) begun(why string, cut int64) []byte {
	b := begin(nil, "start", l.cfg.Now()).str("replica", l.cfg.Replica).str("version", l.cfg.Version).str("why", why)
	if cut > 0 {
		b = b.number("cut_bytes", cut)
	}
	return b.end()
}

// Reserve reserves the place of a call's record. False is that the call must not be made: it
// could not be recorded. Each true is for one Call or Release.
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

// Blocked says whether Admit refuses every call, as records cannot be written.
func (l *Log) Blocked() bool { return l.cfg.Required && l.failing.Load() }

// Release gives the place of a call back that is not recorded.
func (l *Log) Release() {
	if l.cfg.Required {
		l.mu.Lock()
		l.reserved--
		l.mu.Unlock()
	}
}

// RecordCall records a call that has ended; admitted, if Admit was asked. It keeps nothing of c.
func (l *Log) RecordCall(c *Call, admitted bool) {
	var scratch [2048]byte // built outside of the lock, on the stack
	l.queue(c.append(scratch[:0]), admitted && l.cfg.Required)
}

// RecordChange records a change. A nil Log records nothing.
func (l *Log) RecordChange(c *Change) {
	if l != nil {
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
		signal(l.wake)
	}
}

// Reopen opens the file again, as somebody has moved it away: at once, and not for the next
// record. The chain goes on in the new one.
func (l *Log) Reopen() { signal(l.reopen) }

// Close writes what there is, in Config.Patience.
func (l *Log) Close() {
	l.stopOnce.Do(func() { close(l.stop) })
	select {
	case <-l.done:
	case <-time.After(l.cfg.Patience + time.Second): // the sink takes nothing, and does not say so
	}
}

// Stats is what a Log has done so far.
type Stats struct {
	Written uint64
	Lost    [numLost]uint64 // by Lost
	Failing bool            // the last try to write failed
}

// Stats may be asked at any time.
func (l *Log) Stats() Stats {
	s := Stats{Written: l.written.Load(), Failing: l.failing.Load()}
	for i := range s.Lost {
		s.Lost[i] = l.lost[i].Load()
	}
	return s
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
