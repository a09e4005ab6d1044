package sim_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/testkit/sim"
	"github.com/capgate/capgate/policy/approvals"
)

// ledger records what callers and approvers know of all approvals. The invariants are checked against it.
type ledger struct {
	w *sim.Simulation

	mu       sync.Mutex
	all      map[string]*entry
	sessions []time.Duration // times at which answers for the session began
	fresh    []redemption    // not yet compared with Redis
	recent   bool            // a call began to run after the last failover
	empties  int             // number of times that Redis lost its data
	used     int             // redemptions before the faults end
	anew     int             // redemptions after Redis had lost its data
}

// entry holds the knowledge of callers and approvers about an approval.
type entry struct {
	call     int
	approved bool                              // an approval was attempted
	running  int                               // redemptions that were not returned
	answers  map[approvals.State]time.Duration // times of accepted answers
}

type redemption struct {
	id    string
	began time.Time
}

func (l *ledger) created(id string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[id]; e != nil {
		if e.call != n {
			l.w.Fail("the approval of call %d was found for call %d", e.call, n)
		}
		return
	}
	l.all[id] = &entry{call: n, answers: map[approvals.State]time.Duration{}}
}

// some reports whether there are approvals.
func (l *ledger) some() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) > 0
}

// any returns one of all approvals, or "".
func (l *ledger) any(a *sim.Actor) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(l.all))[a.IntN(len(l.all))]
}

func (l *ledger) answering(id string, s approvals.State, r approvals.Remember) (began time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == approvals.Approved {
		l.all[id].approved = true
		if r == approvals.ThisSession {
			l.sessions = append(l.sessions, l.w.Now())
		}
	}
	return l.w.Now()
}

func (l *ledger) answered(id string, _ time.Duration, s approvals.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.all[id]
	l.w.Note("an approval of call %d is %s", e.call, s)
	if _, other := e.answers[approvals.Approved+approvals.Denied-s]; other {
		l.w.Fail("an approval was both approved and denied")
	}
	e.answers[s] = l.w.Now()
}

// covered records the approvals that an answer for the session has answered besides its own. Those whose creation had
// no response are unknown.
func (l *ledger) covered(all []approvals.Approval, s approvals.State) {
	for i := range all {
		l.mu.Lock()
		e := l.all[all[i].ID]
		l.mu.Unlock()
		if e == nil {
			continue
		}
		if e.call < 2 {
			l.w.Fail("an answer for the session covers call %d, which has none", e.call)
		}
		l.answered(all[i].ID, 0, s)
	}
}

// redeemed records a call's redemption, which began at a time.
func (l *ledger) redeemed(id string, began time.Duration, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.all[id]
	l.recent = true
	if !l.w.Settling() {
		l.used++
		l.anew += min(l.empties, 1)
	}
	l.w.Note("call %d runs", by)
	if e.running++; e.running > 1 {
		l.w.Fail("an approval of call %d was redeemed twice", e.call)
	}
	if e.call != by {
		l.w.Fail("the approval of call %d was redeemed by call %d", e.call, by)
	}
	if !e.approved && (e.call < 2 || len(l.sessions) == 0) { // an answer for the session covers calls from 2 on
		l.w.Fail("an approval of call %d was redeemed, and nobody approved it", e.call)
	}
	if at, denied := e.answers[approvals.Denied]; denied && at <= began {
		l.w.Fail("an approval of call %d was redeemed %v after its denial", e.call, began-at)
	}
	l.fresh = append(l.fresh, redemption{id, time.Now().Add(began - l.w.Now())})
}

func (l *ledger) releasing(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[id].running--
}

// granted records a call that may run without an approval of its own, by an answer for its session.
func (l *ledger) granted(began time.Duration, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.Note("call %d is granted by its session", n)
	if n < 2 || len(l.sessions) == 0 {
		l.w.Fail("call %d is granted by an answer for its session, which there is none", n)
	}
}

// ran reports whether a call began to run after the last failover.
func (l *ledger) ran() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent
}

// forget removes answers that a failover may have lost.
func (l *ledger) forget(since time.Time, _ int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent = false
	at := l.w.Now() - time.Since(since)
	for _, e := range l.all {
		maps.DeleteFunc(e.answers, func(_ approvals.State, end time.Duration) bool { return end >= at })
	}
}

// emptied records that Redis has lost its data. What is known of approvals remains; Redis no longer has the earlier
// ones.
func (l *ledger) emptied() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.empties++
}

// check compares the latest redemptions with their records.
func (l *ledger) check(field func(id, name string) string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.fresh {
		ends, err := strconv.ParseInt(field(r.id, "expires"), 10, 64)
		if err == nil && !r.began.Before(time.UnixMilli(ends)) {
			return fmt.Errorf("an approval was redeemed %v after its expiry", r.began.Sub(time.UnixMilli(ends)))
		}
	}
	l.fresh = nil
	return nil
}
