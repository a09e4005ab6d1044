package extauthz

import (
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

const (
	maxReason     = 500       // bytes of Shield's reasoning
	maxActionHash = 128       // bytes of its hash of an action
	maxTTL        = time.Hour // the longest lifetime of a cached verdict
)

// Reply is the answer of a Client. Its texts may be of any length and hold anything.
type Reply struct {
	Verdict    call.Verdict
	Reasoning  string
	ActionHash string
	Evaluated  time.Time // zero: missing
	Expires    time.Time // zero: not cacheable
}

// verdict is a reply in the form of the cache.
type verdict struct {
	call.Verdict
	reason, actionHash string
	expires            time.Time // expiry; in the past: not cacheable
}

// verdictOf converts a reply that arrived at now. Its lifetime is measured by the local clock, and is no
// longer than by Shield's own, as the two may differ.
func verdictOf(r *Reply, now time.Time) verdict {
	v := verdict{
		Verdict: r.Verdict, reason: clean(r.Reasoning, maxReason), actionHash: clean(r.ActionHash, maxActionHash),
	}
	if r.Expires.IsZero() {
		return v
	}
	ttl := min(r.Expires.Sub(now), maxTTL)
	if !r.Evaluated.IsZero() {
		ttl = min(ttl, r.Expires.Sub(r.Evaluated))
	}
	v.expires = now.Add(ttl)
	return v
}

// clean makes a text safe for screens and logs: printable, and no longer than most bytes.
func clean(text string, most int) string { return untrusted.Cut(untrusted.Line(text), most) }

// failure is a request without a verdict. It contains nothing that was sent or received.
type failure struct {
	malformed bool   // there was an answer, but a malformed one
	why       string // one of a bounded set of texts
}

func (f *failure) Error() string { return f.why }

// Unreachable returns the error of a request without an answer. why must come from a fixed set of texts, and must
// contain nothing that was sent or received.
func Unreachable(why string) error { return &failure{why: why} }

// Malformed returns the error of a request with an unreadable answer. why is as for Unreachable.
func Malformed(why string) error { return &failure{malformed: true, why: why} }
