package recent

import (
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/telemetry"
)

// maxWord bounds each text of a call, in bytes. Most are callers'.
const maxWord = 128

// commonTexts is the memory for the texts of a call that a slot has at first, in bytes. It is enough for most calls.
// Small slots stay in the caches of a processor.
const commonTexts = 256

// slot is the place of one call in a ring.
type slot struct {
	seq  uint64
	next int32 // the next newer one of its flow; none: it is the newest
	sent bool  // it is published, or does not have to be
	entry
}

// entry has one call. It holds no memory but its own: the texts of a record are parts of the call's headers.
type entry struct {
	failed   bool // its code is not OK
	traced   bool
	replayed bool
	attempts int32

	lens    [numTexts]uint8 // of the texts
	texts   []byte          // all texts, one after the other; grows for long ones
	ended   int64           // Unix time, nanoseconds
	took    time.Duration
	in, out int64
	trace   telemetry.TraceID
}

// none is the index of no slot.
const none = -1

// set copies a record.
func (e *entry) set(rec *telemetry.Record) {
	e.failed = rec.Code != 0
	e.ended, e.took = rec.Started.Add(rec.Ended).UnixNano(), rec.Ended
	e.in, e.out, e.attempts = rec.BytesIn, rec.BytesOut, int32(rec.Attempts)
	e.trace, e.traced, e.replayed = rec.Trace, rec.Traced, rec.Replayed
	all, n := texts(rec.Summary()), 0
	for i, text := range all {
		size := len(cut(*text))
		e.lens[i] = uint8(size)
		n += size
	}
	e.texts = slices.Grow(e.texts[:0], n)[:n]
	n = 0
	for i, text := range all {
		if size := int(e.lens[i]); size > 0 {
			n += copy(e.texts[n:], (*text)[:size])
		}
	}
}

// tenant returns the tenant of the call.
func (e *entry) tenant() []byte { return e.texts[:e.lens[0]] }

// clone returns a copy with its own texts.
func (s *slot) clone() slot {
	own := *s
	own.texts = slices.Clone(s.texts)
	return own
}

// cut returns the beginning of a text, at most maxWord bytes.
func cut(s string) string { return untrusted.Truncate(s, maxWord) }

// call returns the call of a slot.
func (s *slot) call(replica, process string) Call {
	c := Call{
		ID: process + "-" + strconv.FormatUint(s.seq, 10), Ended: time.Unix(0, s.ended).UTC(), Replica: replica,
		Took: s.took, Attempts: int(s.attempts), BytesIn: s.in, BytesOut: s.out, Traced: s.traced, Replayed: s.replayed,
	}
	rest := s.texts
	for i, text := range texts(&c.Summary) {
		*text = untrusted.UTF8(string(rest[:s.lens[i]]))
		rest = rest[s.lens[i]:]
	}
	if !s.trace.IsZero() {
		c.Trace = hex.EncodeToString(s.trace[:])
	}
	return c
}
