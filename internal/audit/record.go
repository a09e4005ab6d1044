package audit

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
)

// Call is a call that has ended.
type Call struct {
	*call.Call
	Client   string       // client address; "": unknown
	Request  string       // the caller's request id
	Trace    [16]byte     // of W3C trace context; zero: none
	Gateway  bool         // made by the gateway itself
	Decided  bool         // it was authorized, with
	Verdict  call.Verdict // this verdict
	Level    call.Level   // at this level
	Approval string       // id of the approval that it used, or that it lacks
	Code     string       // of gRPC
	Reason   string       // of the gateway's rejection; "": none
	Failure  string       // of the relay; "": none
	Outcome  string       // the tool's outcome
	Replayed bool         // a repeated call with an idempotency key that got the stored response
	Started  time.Time
	Took     time.Duration
}

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

func (c *Call) append(b []byte) []byte {
	l := begin(b, "call", c.Started.Add(c.Took))
	l = l.str("tenant", c.Tenant).str("user", c.User).str("agent", c.Agent).str("key", c.Key).str("client",
		c.Client).flag("gateway", c.Gateway)
	l = l.str("method", c.Method.String())
	if c.Method == call.Other {
		l = l.str("path", call.WithoutQuery(c.Path))
	}
	l = l.str("capability", c.Capability).str("tool", c.Tool).str("request_id", c.Request)
	if c.Trace != [16]byte{} {
		var text [32]byte
		hex.Encode(text[:], c.Trace[:])
		l = append(l, `,"trace_id":"`...)
		l = append(append(l, text[:]...), '"')
	}
	if c.Decided {
		l = l.str("decision", c.Verdict.String()).str("level", c.Level.String())
	}
	l = l.str("approval", c.Approval).str("code", c.Code).str("reason", c.Reason)
	l = l.str("failure", c.Failure).str("outcome", c.Outcome).flag("replayed", c.Replayed).number("duration_us",
		c.Took.Microseconds())
	return l.end()
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
	if len(s) > maxValue {
		end := maxValue
		for end > maxValue-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
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
