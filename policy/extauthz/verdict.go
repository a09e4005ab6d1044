package extauthz

import (
	"strings"
	"time"
	"unicode"

	"github.com/capgate/capgate/internal/call"
)

const (
	maxReason     = 500       // bytes of what Shield says to people
	maxActionHash = 128       // bytes of its hash of an action
	maxKept       = time.Hour // most time that a verdict is kept
)

// reply is what Shield answered, as both of its forms say it.
type reply struct {
	verdict    call.Verdict
	reasoning  string
	actionHash string
	evaluated  time.Time // zero where it did not say
	expires    time.Time // zero: not to be kept
}

// verdict is a reply that can be kept.
type verdict struct {
	call.Verdict
	reason, actionHash string
	until              time.Time // not after it; in the past: not at all
}

// verdictOf reads a reply that came at now. How long it stands is by our clock, and no
// longer than by Shield's own, as the two may differ.
func verdictOf(r *reply, now time.Time) verdict {
	v := verdict{Verdict: r.verdict, reason: clean(r.reasoning, maxReason), actionHash: clean(r.actionHash, maxActionHash)}
	if r.expires.IsZero() {
		return v
	}
	stands := min(r.expires.Sub(now), maxKept)
	if !r.evaluated.IsZero() {
		stands = min(stands, r.expires.Sub(r.evaluated))
	}
	v.until = now.Add(stands)
	return v
}

// clean makes a text fit for a person's screen and a log: printable, and no longer than most
// bytes.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// milliseconds since 1970 are more than this since 1973, and seconds are not before the
// year 5138.
const milliseconds = 100_000_000_000

// timeOf reads a time whose unit nobody wrote down.
func timeOf(n int64) time.Time {
	switch {
	case n <= 0:
		return time.Time{}
	case n < milliseconds:
		return time.Unix(n, 0)
	}
	return time.UnixMilli(n)
}

// failure is a question that was not answered. It holds nothing that was sent or received.
type failure struct {
	malformed bool   // there was an answer, but none that can be understood
	why       string // one of a bounded set of words
}

func (f *failure) Error() string { return f.why }

func absent(why string) *failure    { return &failure{why: why} }
func malformed(why string) *failure { return &failure{malformed: true, why: why} }
