package telemetry

import (
	"encoding/hex"
	"log/slog"
	"strconv"
	"time"
)

// lineFormat appends the parts of a log line as slog.JSONHandler or, if true, as slog.TextHandler would. It
// passes the line by value from part to part, because the compiler would move a pointer's target to the heap.
type lineFormat bool

const text lineFormat = true

// appendRecord appends the line of a call. Attributes without a value are left out;
// method, code, bytes and duration are always there.
func (l *AccessLog) appendRecord(b []byte, rec *Record, level slog.Level) []byte {
	w, s := lineFormat(l.cfg.Text), rec.Summary()
	b = w.begin(b, l.clock.at(rec.Started.Add(rec.Ended)), level)
	b = w.word(b, `,"method":`, s.Method)
	b = w.str(b, `,"path":`, s.Path)
	b = w.str(b, `,"protocol":`, rec.Protocol.String())
	b = w.str(b, `,"dialect":`, s.Dialect)
	b = w.str(b, `,"capability":`, s.Capability)
	b = w.str(b, `,"tool":`, s.Tool)
	b = w.str(b, `,"backend":`, s.Backend)
	b = w.word(b, `,"code":`, s.Code)
	b = w.str(b, `,"outcome":`, s.Outcome)
	if s.Verdict != "" {
		b = w.word(b, `,"policy":`, s.Verdict)
		b = w.word(b, `,"policy_level":`, s.Level)
		b = w.str(b, `,"policy_candidate":`, s.Candidate)
		b = strconv.AppendBool(w.key(b, `,"policy_cached":`), rec.Decision.Cached)
		b = w.str(b, `,"approval":`, s.Approval)
	}
	if rec.Replayed {
		b = strconv.AppendBool(w.key(b, `,"replayed":`), true)
	}
	b = w.str(b, `,"reason":`, s.Reason)
	b = w.str(b, `,"shed_by":`, rec.Shed.String())
	b = w.str(b, `,"limit_shadow":`, s.Shadowed)
	b = w.str(b, `,"failure":`, s.Failure)
	b = w.num(b, `,"bytes_in":`, rec.BytesIn)
	b = w.num(b, `,"bytes_out":`, rec.BytesOut)
	b = w.millis(b, `,"duration_ms":`, rec.Ended)
	if rec.Forwarded > 0 {
		b = w.millis(b, `,"forwarded_ms":`, rec.Forwarded)
	}
	if rec.FirstByte > 0 {
		b = w.millis(b, `,"first_byte_ms":`, rec.FirstByte)
	}
	b = w.str(b, `,"client":`, rec.Client)
	b = w.str(b, `,"listener":`, s.Listener)
	b = w.str(b, `,"tenant":`, s.Tenant)
	b = w.str(b, `,"key":`, s.Key)
	b = w.str(b, `,"user":`, s.User)
	b = w.str(b, `,"agent":`, s.Agent)
	b = w.str(b, `,"request_id":`, s.RequestID)
	b = w.trace(b, `,"trace_id":`, rec.Trace)
	return w.end(b)
}

// begin writes time, level and message.
func (w lineFormat) begin(b []byte, t stamp, level slog.Level) []byte {
	name := `INFO`
	if level == slog.LevelWarn {
		name = `WARN`
	}
	if w == text {
		b = append(b, `time=`...)
		b = t.appendMillis(b)
		b = append(b, ` level=`...)
		b = append(b, name...)
		return append(b, ` msg=call`...)
	}
	b = append(b, `{"time":"`...)
	b = t.appendNanos(b)
	b = append(b, `","level":"`...)
	b = append(b, name...)
	return append(b, `","msg":"call"`...)
}

func (w lineFormat) end(b []byte) []byte {
	if w == text {
		return append(b, '\n')
	}
	return append(b, '}', '\n')
}

// key appends a key, given as JSON requires it: `,"name":`.
func (w lineFormat) key(b []byte, key string) []byte {
	if w == text {
		b = append(b, ' ')
		b = append(b, key[2:len(key)-2]...)
		return append(b, '=')
	}
	return append(b, key...)
}

// word appends a constant string, which needs no escaping.
func (w lineFormat) word(b []byte, key, s string) []byte {
	if w == text {
		return append(w.key(b, key), s...)
	}
	b = append(b, key...)
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// str appends any string, cut to maxString bytes; nothing when it is empty.
func (w lineFormat) str(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	b = w.key(b, key)
	s = truncate(s)
	if w == text {
		return appendText(b, s)
	}
	b = append(b, '"')
	b = appendJSON(b, s)
	return append(b, '"')
}

// trace appends the id of a trace; nothing when there is none.
func (w lineFormat) trace(b []byte, key string, id TraceID) []byte {
	if id.IsZero() {
		return b
	}
	b = w.key(b, key)
	if w == text {
		return hex.AppendEncode(b, id[:])
	}
	b = append(b, '"')
	b = hex.AppendEncode(b, id[:])
	return append(b, '"')
}

func (w lineFormat) num(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(w.key(b, key), n, 10)
}

// millis appends milliseconds with at most three decimals: whole microseconds. The result equals slog's for the
// same float64, without the search for the shortest form.
func (w lineFormat) millis(b []byte, key string, d time.Duration) []byte {
	b = w.key(b, key)
	micros := max(d.Microseconds(), 0)
	if w == text && micros >= 1e9 { // slog's text format uses exponents from 1e6 on
		return strconv.AppendFloat(b, float64(micros)/1000, 'g', -1, 64)
	}
	b = strconv.AppendInt(b, micros/1000, 10)
	if rest := uint32(micros % 1000); rest != 0 {
		b = append(b, '.')
		b = appendFraction(b, rest, 3, true)
	}
	return b
}

// appendFraction appends n as that many digits with leading zeros and, with trim, no trailing ones.
func appendFraction(b []byte, n uint32, digits int, trim bool) []byte {
	for trim && n%10 == 0 {
		n /= 10
		digits--
	}
	start := len(b)
	b = append(b, "000000000"[:digits]...)
	for i := start + digits - 1; n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}
