package telemetry

import (
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
)

// Defaults of AccessLogConfig, and the size of a write to the sink.
const (
	defaultMaxPending = 1 << 20
	defaultInterval   = 100 * time.Millisecond
	flushBytes        = 32 << 10
)

// AccessLogConfig selects the lines of an access log, and bounds their buffer. The zero value works.
type AccessLogConfig struct {
	Level      slog.Leveler  // the lowest level that is written; default INFO. May change while calls run
	Text       bool          // slog's text format instead of JSON
	MaxPending int           // bytes that may wait for the sink; default 1 MiB. There are two such buffers
	Interval   time.Duration // maximum time that a line waits for others; default 100 ms
}

// AccessLog writes one line per call to a sink. Lines have slog's formats but do not pass through slog, which
// costs about eight times as much (BenchmarkSlog). They gather in memory, and one goroutine writes them after
// 32 KiB or Interval. If the sink is too slow, lines are dropped and counted. A call never waits for it.
type AccessLog struct {
	out     io.Writer
	cfg     AccessLogConfig
	clock   clock
	dropped atomic.Uint64

	first chan struct{} // capacity 1: signals that pending is no longer empty
	full  chan struct{} // capacity 1: pending reached flushBytes
	stop  chan struct{} // closed by Close
	done  chan struct{} // closed by run
	err   error         // last error of the sink; owned by run until done

	mu      sync.Mutex // held to copy one line, or to swap buffers
	pending []byte     // whole lines
	lines   uint64     // number of lines in pending
	closed  bool
}

// NewAccessLog starts a log that writes to out. Only the log's goroutine uses out until Close. Every Write gets
// whole lines.
func NewAccessLog(out io.Writer, cfg AccessLogConfig) *AccessLog {
	if cfg.Level == nil {
		cfg.Level = slog.LevelInfo
	}
	if cfg.MaxPending <= 0 {
		cfg.MaxPending = defaultMaxPending
	}
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	l := &AccessLog{
		out: out, cfg: cfg,
		first: make(chan struct{}, 1), full: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// Dropped returns the number of lost lines.
func (l *AccessLog) Dropped() uint64 { return l.dropped.Load() }

// Close writes what is pending, waits for it, and returns the sink's last error.
// Calls that end later are counted as dropped lines.
func (l *AccessLog) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stop)
	}
	l.mu.Unlock()
	<-l.done
	return l.err
}

// write queues the line of a call.
func (l *AccessLog) write(rec *Record) {
	level := levelOf(rec)
	if level < l.cfg.Level.Level() {
		return
	}
	// The line is built outside the lock, on the stack, so that the lock covers one copy.
	var scratch [1024]byte
	l.queue(l.appendRecord(scratch[:0], rec, level))
}

func (l *AccessLog) queue(text []byte) {
	l.mu.Lock()
	before := len(l.pending)
	after := before + len(text)
	if l.closed || after > l.cfg.MaxPending {
		l.mu.Unlock()
		l.dropped.Add(1)
		return
	}
	l.pending = append(l.pending, text...)
	l.lines++
	l.mu.Unlock()
	if before == 0 {
		signal.Wake(l.first)
	}
	if before < flushBytes && after >= flushBytes {
		signal.Wake(l.full)
	}
}

// run moves lines to the sink until Close. It sleeps while no line waits.
func (l *AccessLog) run() {
	defer close(l.done)
	spare := make([]byte, 0, 2*flushBytes)
	timer := time.NewTimer(l.cfg.Interval)
	defer timer.Stop()
	for {
		select {
		case <-l.first:
		case <-l.stop:
			l.flush(spare)
			return
		}
		timer.Reset(l.cfg.Interval)
		select {
		case <-l.full:
		case <-timer.C:
		case <-l.stop:
		}
		spare = l.flush(spare)
	}
}

// flush swaps the pending lines for an empty buffer, writes them, and returns
// their buffer for the next swap.
func (l *AccessLog) flush(spare []byte) []byte {
	l.mu.Lock()
	text, lines := l.pending, l.lines
	l.pending, l.lines = spare[:0], 0
	l.mu.Unlock()
	if len(text) == 0 {
		return text
	}
	if _, err := l.out.Write(text); err != nil {
		l.err = err
		l.dropped.Add(lines)
	}
	return text
}
