package audit

import (
	"bytes"
	"time"
)

// writer is the state of the writing goroutine.
type writer struct {
	*Log
	batch    []byte // records to write, not chained yet
	spare    []byte // memory of another batch
	text     []byte // the batch, chained
	unsynced bool
	gone     bool        // the file could not be reopened
	timer    *time.Timer // of the next attempt or sync
}

// run writes until Close. first is the first record.
func (l *Log) run(first []byte) {
	defer close(l.done)
	w := &writer{Log: l, batch: first, timer: time.NewTimer(time.Hour)}
	defer w.timer.Stop()
	for {
		w.flush()
		select {
		case <-l.wake:
		case <-l.reopen:
			w.open("reopened")
		case <-w.timer.C:
			w.tick()
		case <-l.stop:
			w.finish()
			return
		}
	}
}

// flush writes all pending records, until an error.
func (w *writer) flush() {
	for {
		if len(w.batch) == 0 {
			w.take()
		}
		if len(w.batch) == 0 {
			return
		}
		if w.sink.rotated() {
			w.open("moved")
		}
		if err := w.write(); err != nil {
			w.failed(err)
			w.timer.Reset(w.cfg.Retry)
			return
		}
	}
}

// take swaps the queue for an empty one, and appends records of lost ones.
func (w *writer) take() {
	w.mu.Lock()
	w.batch, w.pending, w.count = w.pending, w.spare[:0], 0
	untold := w.unrecorded
	w.unrecorded = [numLost]int64{}
	w.mu.Unlock()
	w.spare = nil
	for why, n := range untold {
		if n > 0 {
			w.batch = append(w.batch, begin(nil, "lost", w.cfg.Now()).number("records", n).str("reason",
				Lost(why).String()).end()...)
		}
	}
}

// write writes the batch to the sink. After a partial write the rest stays in the batch, as the next of the chain.
func (w *writer) write() error {
	head, ends := w.head, w.text[:0]
	for rest := w.batch; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		ends = head.link(ends, rest[:n])
		rest = rest[n:]
	}
	w.text = ends
	n, err := w.sink.write(w.text)
	taken := int64(bytes.Count(w.text[:n], []byte{'\n'}))
	w.written.Add(uint64(taken))
	w.unsynced = w.unsynced || n > 0
	if n == len(w.text) {
		w.head, w.spare, w.batch = head, keep(w.batch), nil
	} else {
		for range taken {
			next := bytes.IndexByte(w.batch, '\n') + 1
			w.text = w.head.link(w.text[:0], w.batch[:next])
			w.batch = w.batch[next:]
		}
	}
	w.text = keep(w.text)
	if err != nil {
		return err
	}
	if w.failing.Swap(false) {
		w.cfg.Log.Info("the audit log can be written again", "seq", w.head.Seq)
	}
	if w.unsynced {
		w.timer.Reset(syncEvery)
	}
	return nil
}

// keep returns a buffer for reuse, unless it is large.
func keep(b []byte) []byte {
	const most = 1 << 20
	if cap(b) > most {
		return nil
	}
	return b[:0]
}

// sync flushes written records to the disk.
func (w *writer) sync() {
	if !w.unsynced {
		return
	}
	if err := w.sink.sync(); err != nil {
		w.failed(err)
		w.timer.Reset(w.cfg.Retry)
		return
	}
	w.unsynced = false
	if len(w.batch) == 0 {
		w.failing.Store(false)
	}
}

func (w *writer) failed(err error) {
	if !w.failing.Swap(true) {
		w.cfg.Log.Error("the audit log cannot be written", "error", err, "retry_in", w.cfg.Retry.String(),
			"calls_refused", w.cfg.Required)
	}
}

// open continues in a file of the same name, which may be the same one.
func (w *writer) open(why string) {
	if w.cfg.Path == "" {
		return
	}
	w.sync()
	_ = w.sink.close() // this releases its lock, as it may be the same file
	next, found, cut, err := openFile(w.cfg.Path)
	if w.gone = err != nil; w.gone {
		w.sink = failedSink{err}
		w.failed(err)
		w.timer.Reset(w.cfg.Retry)
		return
	}
	w.sink, w.unsynced = next, true
	if found.Seq > 0 { // it has records, perhaps of this process
		w.head = found
	}
	if why == "moved" { // without a call of Reopen
		w.cfg.Log.Warn("the file of the audit log was moved or removed; the log continues in a new one", "path",
			w.cfg.Path, "seq", w.head.Seq, "hash", w.head.String())
	} else {
		w.cfg.Log.Info("audit log reopened", "seq", w.head.Seq, "hash", w.head.String())
	}
	w.batch = append(w.startRecord(why, cut), w.batch...)
}

// tick reopens a lost file, or syncs.
func (w *writer) tick() {
	if w.gone {
		w.open("reopened")
	} else {
		w.sync()
	}
}

// finish writes the last records.
func (w *writer) finish() {
	until := time.Now().Add(w.cfg.Patience)
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for {
		w.flush()
		if w.sync(); len(w.batch) == 0 && !w.unsynced || time.Now().After(until) {
			break
		}
		<-w.timer.C
		w.tick()
	}
	w.mu.Lock()
	left := w.count + bytes.Count(w.batch, []byte{'\n'})
	w.mu.Unlock()
	if left > 0 {
		w.lost[Closed].Add(uint64(left))
		w.cfg.Log.Error("records of the audit log were lost", "records", left)
	}
	w.cfg.Log.Info("the audit log ends", "seq", w.head.Seq, "hash", w.head.String())
	_ = w.sink.close()
}
