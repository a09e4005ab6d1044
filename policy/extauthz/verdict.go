package extauthz

import (
	"strings"
	"time"
	"unicode"

	"github.com/capgate/capgate/internal/call"
)

const (
	maxReason     = 500       // bytes of Shield's reasoning
	maxActionHash = 128       // bytes of its hash of an action
	maxTTL        = time.Hour // the longest lifetime of a cached verdict
)

// reply is Shield's answer in either protocol.
type reply struct {
	verdict    call.Verdict
	reasoning  string
	actionHash string
	evaluated  time.Time // zero: missing
	expires    time.Time // zero: not cacheable
}

// verdict is a reply in the form of the cache.
type verdict struct {
	call.Verdict
	reason, actionHash string
	expires            time.Time // expiry; in the past: not cacheable
}

// verdictOf converts a reply that arrived at now. Its lifetime is measured by the local clock, and is no
// longer than by Shield's own, as the two may differ.
func verdictOf(r *reply, now time.Time) verdict {
	v := verdict{
		Verdict: r.verdict, reason: clean(r.reasoning, maxReason), actionHash: clean(r.actionHash, maxActionHash),
	}
	if r.expires.IsZero() {
		return v
	}
	ttl := min(r.expires.Sub(now), maxTTL)
	if !r.evaluated.IsZero() {
		ttl = min(ttl, r.expires.Sub(r.evaluated))
	}
	v.expires = now.Add(ttl)
	return v
}

// clean makes a text safe for screens and logs: printable, and no longer than most bytes.
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

// millisecondsFrom separates units of time: as milliseconds it is in 1973, as seconds in the year 5138.
const millisecondsFrom = 100_000_000_000

// timeOf converts a time in seconds or milliseconds.
func timeOf(n int64) time.Time {
	switch {
	case n <= 0:
		return time.Time{}
	case n < millisecondsFrom:
		return time.Unix(n, 0)
	}
	return time.UnixMilli(n)
}

// failure is a request without a verdict. It contains nothing that was sent or received.
type failure struct {
	malformed bool   // there was an answer, but a malformed one
	why       string // one of a bounded set of texts
}

func (f *failure) Error() string { return f.why }

func unreachable(why string) *failure { return &failure{why: why} }
func malformed(why string) *failure   { return &failure{malformed: true, why: why} }
