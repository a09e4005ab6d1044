package recent

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/telemetry"
)

// maxWord bounds each text of a call, in bytes. Most are callers'.
const maxWord = 128

// maxTexts bounds the texts of a call together, in bytes. Seven of them are names that the gateway gives.
const maxTexts = (numTexts-7)*maxWord + 7*24

// slot has one call. It holds no memory but its own: the texts of a record are parts of the call's headers.
type slot struct {
	seq  uint64
	next int32 // the next newer one of its flow; none: it is the newest
	sent bool  // it is published, or does not have to be

	ended    int64 // Unix time, nanoseconds
	took     time.Duration
	in, out  int64
	attempts int32
	trace    telemetry.TraceID
	traced   bool
	replayed bool
	ends     [numTexts]uint16
	texts    [maxTexts]byte
}

// none is the index of no slot.
const none = -1

// set copies a record.
func (s *slot) set(rec *telemetry.Record) {
	s.ended, s.took = rec.Started.Add(rec.Ended).UnixNano(), rec.Ended
	s.in, s.out, s.attempts = rec.BytesIn, rec.BytesOut, int32(rec.Attempts)
	s.trace, s.traced, s.replayed = rec.Trace, rec.Traced, rec.Replayed
	n, summary := 0, rec.Summary()
	for i, text := range texts(summary) {
		n += copy(s.texts[n:], cut(*text))
		s.ends[i] = uint16(n)
	}
}

// cut returns the beginning of a text, at most maxWord bytes.
func cut(s string) string { return untrusted.Truncate(s, maxWord) }

// call returns the call of a slot.
func (s *slot) call(replica, process string) Call {
	c := Call{
		ID: process + "-" + strconv.FormatUint(s.seq, 10), Ended: time.Unix(0, s.ended).UTC(), Replica: replica,
		Took: s.took, Attempts: int(s.attempts), BytesIn: s.in, BytesOut: s.out, Traced: s.traced, Replayed: s.replayed,
	}
	from := uint16(0)
	for i, text := range texts(&c.Summary) {
		*text = untrusted.UTF8(string(s.texts[from:s.ends[i]]))
		from = s.ends[i]
	}
	if !s.trace.IsZero() {
		c.Trace = hex.EncodeToString(s.trace[:])
	}
	return c
}
