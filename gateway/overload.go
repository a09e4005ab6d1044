package gateway

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/overload"
	"github.com/capgate/capgate/internal/tenant"
)

// shedding turns calls away that are too much for the process. It comes before everything
// that a call costs but the question who makes it: being turned away has to be cheap.
type shedding struct {
	by    *overload.Shedder // nil: nothing is too much
	lines atomic.Int64      // log lines of such calls left in this second
	since atomic.Int64      // the second, of Unix time
}

// shedLines is how many calls that were turned away are logged in a second; all are counted.
const shedLines = 100

// admit lets a call in, or says why not. What the gateway itself asks, what was let in
// already and comes back from the translator, and what has to be answered so that others
// see how the gateway is, is not counted.
func (d *shedding) admit(s *relay.Stream, t *transit) *call.Refusal {
	if d.by == nil || t.ours || t.before != nil || t.own && isOpen(t.call.Path) {
		return nil
	}
	who := t.call.Tenant
	if t.settings == nil {
		who = "" // there is nobody else
	}
	var verdict overload.Verdict
	t.share, verdict = d.by.Admit(who)
	if verdict == overload.Admitted {
		return nil
	}
	t.shed = true
	if verdict == overload.Heavy {
		return refusedHeavy
	}
	return refusedFull
}

// quiet says whether the line of a call that was turned away is to be left out. Calls that
// waited until it was known who makes them come later than they began.
func (d *shedding) quiet(now time.Time) bool {
	second := now.Unix()
	if was := d.since.Load(); was < second && d.since.CompareAndSwap(was, second) {
		d.lines.Store(shedLines)
	}
	return d.lines.Add(-1) < 0
}

// tooMany is how one is turned away of whose tenant too many wait, or too much is held.
func tooMany(who tenant.Identity) *call.Refusal {
	if who.Settings == nil { // there are no others, or it is not known who that is
		return refusedFull
	}
	return refusedHeavy
}

// comeBackLater is when those may try again who were turned away.
const comeBackLater = time.Second

var (
	refusedHeavy = &call.Refusal{Kind: call.ResourceExhausted, Reason: "OVERLOADED", RetryAfter: comeBackLater,
		Message: "the gateway has more to do than it can, and this tenant more than its share of it"}
	refusedFull = &call.Refusal{Kind: call.Unavailable, Reason: "OVERLOADED", RetryAfter: comeBackLater,
		Message: "the gateway has more to do than it can"}
)
