package recent

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// maxWord bounds each text of a call, in bytes. Most are callers'.
const maxWord = 128

// The texts of a call, as slot has them.
const (
	wordRequest = iota
	wordListener
	wordTenant
	wordUser
	wordAgent
	wordKey
	wordCapability
	wordTool
	wordReason
	wordFailure
	wordBackend
	wordApproval
	wordShadowed
	numWords
)

// slot has one call. It holds no memory but its own: the texts of a record are parts of the call's headers.
type slot struct {
	seq  uint64
	next int32 // the next newer one of its flow; none: it is the newest
	sent bool  // it is published, or does not have to be

	ended     int64 // Unix time, nanoseconds
	took      time.Duration
	in, out   int64
	code      uint32
	attempts  int32
	method    call.Method
	dialect   call.Dialect
	outcome   telemetry.Outcome
	decision  telemetry.Decision // without its Approval, which is a word
	trace     telemetry.TraceID
	traced    bool
	replayed  bool
	ends      [numWords]uint16
	wordBytes [numWords * maxWord]byte
}

// none is the index of no slot.
const none = -1

// set copies a record.
func (s *slot) set(rec *telemetry.Record) {
	c := rec.Call
	s.ended, s.took = rec.Started.Add(rec.Ended).UnixNano(), rec.Ended
	s.in, s.out, s.code, s.attempts = rec.BytesIn, rec.BytesOut, rec.Code, int32(rec.Attempts)
	s.method, s.dialect, s.outcome = c.Method, c.Dialect, rec.Outcome
	s.decision, s.trace, s.traced, s.replayed = rec.Decision, rec.Trace, rec.Traced, rec.Replayed
	s.decision.Approval = ""
	n := 0
	for i, text := range [numWords]string{
		wordRequest: rec.RequestID, wordListener: rec.Listener, wordTenant: c.Tenant, wordUser: c.User,
		wordAgent: c.Agent, wordKey: c.Key, wordCapability: c.Capability, wordTool: c.Tool, wordReason: rec.Reason,
		wordFailure: rec.Failure, wordBackend: rec.Backend, wordApproval: rec.Decision.Approval,
		wordShadowed: rec.Shadowed,
	} {
		n += copy(s.wordBytes[n:], cut(text))
		s.ends[i] = uint16(n)
	}
}

// cut returns at most maxWord bytes of a text, up to the end of a character.
func cut(s string) string {
	if len(s) <= maxWord {
		return s
	}
	end := maxWord
	for end > maxWord-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// word returns a text as valid UTF-8.
func (s *slot) word(i int) string {
	from := uint16(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	return strings.ToValidUTF8(string(s.wordBytes[from:s.ends[i]]), "\uFFFD")
}

// call returns the call of a slot.
func (s *slot) call(replica, process string) Call {
	c := Call{
		ID: process + "-" + strconv.FormatUint(s.seq, 10), Ended: time.Unix(0, s.ended).UTC(), Replica: replica,
		RequestID: s.word(wordRequest), Listener: s.word(wordListener), Tenant: s.word(wordTenant),
		User: s.word(wordUser), Agent: s.word(wordAgent), Key: s.word(wordKey), Capability: s.word(wordCapability),
		Tool: s.word(wordTool), Method: s.method.String(), Code: telemetry.CodeName(s.code), Reason: s.word(wordReason),
		Failure: s.word(wordFailure), Outcome: s.outcome.String(), Took: s.took, Backend: s.word(wordBackend),
		Attempts: int(s.attempts), BytesIn: s.in, BytesOut: s.out, Traced: s.traced, Approval: s.word(wordApproval),
		Shadowed: s.word(wordShadowed), Replayed: s.replayed,
	}
	if s.dialect != call.Auto {
		c.Dialect = s.dialect.String()
	}
	if !s.trace.IsZero() {
		c.Trace = hex.EncodeToString(s.trace[:])
	}
	if d := &s.decision; d.Made {
		c.Verdict, c.Level = d.Verdict.String(), d.Level.String()
		if d.Differs {
			c.Candidate = d.Candidate.String()
		}
	}
	return c
}
