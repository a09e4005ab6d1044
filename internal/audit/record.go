package audit

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/telemetry"
)

// Change is an action of a person or a program other than a call.
type Change struct {
	Actor   string   // the person or program, authenticated or asserted
	What    string   // such as approval.approved or rule.set
	Tenant  string   // its tenant; "": all, or none
	Targets []Target // its objects
}

// Target is an object of a change. Names are constants that need no escapes.
type Target struct{ Name, Value string }

// Targets returns targets from alternating names and values.
func Targets(pairs ...string) []Target {
	all := make([]Target, len(pairs)/2)
	for i := range all {
		all[i] = Target{Name: pairs[2*i], Value: pairs[2*i+1]}
	}
	return all
}

const (
	// maxValue bounds a text in a record, in bytes. Most texts are callers'.
	maxValue = 256
	// maxRecord exceeds the length of any line, in bytes, including its chain.
	maxRecord = 32 << 10
)

// line is a record under construction, without its chain: {"type":… and no } yet.
type line []byte

func begin(b []byte, typ string, at time.Time) line {
	b = append(b, `{"type":"`...)
	b = append(b, typ...)
	b = append(b, `","time":"`...)
	b = at.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, '"')
}

// str adds a non-empty field.
func (b line) str(name, value string) line {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':', '"')
	b = appendEscaped(b, value)
	return append(b, '"')
}

func (b line) number(name string, n int64) line {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, n, 10)
}

func (b line) flag(name string, is bool) line {
	if !is {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, `":true`...)
}

func (b line) end() []byte { return append(b, '}', '\n') }

// appendCall appends the record of a call.
func appendCall(b []byte, rec *telemetry.Record) []byte {
	s := rec.Summary()
	l := begin(b, "call", rec.Started.Add(rec.Ended))
	l = l.str("tenant", s.Tenant).str("user", s.User).str("agent", s.Agent).str("key", s.Key)
	l = l.str("client", rec.Client).flag("gateway", rec.Gateway).str("method", s.Method).str("path", s.Path)
	l = l.str("capability", s.Capability).str("tool", s.Tool).str("request_id", s.RequestID)
	if !rec.Trace.IsZero() {
		l = hex.AppendEncode(append(l, `,"trace_id":"`...), rec.Trace[:])
		l = append(l, '"')
	}
	l = l.str("decision", s.Verdict).str("level", s.Level).str("approval", s.Approval).str("code", s.Code)
	l = l.str("reason", s.Reason).str("failure", s.Failure).str("outcome", s.Outcome).flag("replayed", rec.Replayed)
	return l.number("duration_us", rec.Ended.Microseconds()).end()
}

func (c *Change) append(b []byte, at time.Time) []byte {
	l := begin(b, "change", at).str("actor", c.Actor).str("what", c.What).str("tenant", c.Tenant)
	for _, on := range c.Targets {
		l = l.str(on.Name, on.Value)
	}
	return l.end()
}

// appendEscaped appends the inside of a JSON string of at most maxValue bytes of s. Invalid UTF-8 becomes U+FFFD.
func appendEscaped(b []byte, s string) []byte {
	s = untrusted.Truncate(s, maxValue)
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < ' ' || c == 0x7f:
				b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			default:
				b = append(b, c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		b = utf8.AppendRune(b, r) // RuneError is U+FFFD
		i += size
	}
	return b
}
