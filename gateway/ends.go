package gateway

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// ends are how the two passages of a translated call ended, which can be in different ways: an answer that
// the translator cannot say is a success for the backend and an error for the caller. The
// record of the call has what its caller got, and all else from the second passage. Whichever ends
// last makes it. The zero value is a call that goes on.
type ends struct {
	refused atomic.Pointer[call.Refusal] // by the translator
	outcome atomic.Int32                 // telemetry.Outcome, as a server inside the process saw it; 0: it did not

	mu     sync.Mutex
	caller *callersEnd       // of the first passage
	record *telemetry.Record // of the second; it outlives that
}

// callersEnd is how a call ended for its caller.
type callersEnd struct {
	code    uint32
	failure relay.Failure
	reason  string
}

// correct changes the record of the second passage to what the caller got.
func (e *callersEnd) correct(rec *telemetry.Record) {
	if e.code == rec.Code && rec.Reason == "" {
		rec.Reason = e.reason
	}
	if e.code != rec.Code {
		rec.Code, rec.Outcome, rec.Failure, rec.Reason = e.code, telemetry.NoOutcome, e.failure.String(), e.reason
	}
}

// first ends the first passage. It returns what is to be recorded; nil: the second passage
// will do it.
func (e *ends) first(t *callState, r *relay.Result) *telemetry.Record {
	end := &callersEnd{code: r.Code, failure: r.Failure, reason: e.reason(r)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.record == nil {
		e.caller = end
		return nil
	}
	e.record.Call, e.record.Client, e.record.RequestID = &t.Info, t.Client.Address, t.RequestID
	end.correct(e.record)
	e.judge(e.record)
	return e.record
}

// second ends the second passage, of which rec is the record, and says whether that is to be
// recorded now; else the first passage does it.
func (e *ends) second(rec *telemetry.Record) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.caller == nil {
		kept := *rec
		kept.Call, kept.Client, kept.RequestID = nil, "", "" // parts of the passage; the first has them, too
		e.record = &kept
		return false
	}
	e.caller.correct(rec)
	e.judge(rec)
	return true
}

// judge is what a server inside the process made of an answer that its caller got, if it did.
func (e *ends) judge(rec *telemetry.Record) {
	if o := telemetry.Outcome(e.outcome.Load()); o != telemetry.NoOutcome && rec.Code == 0 {
		rec.Outcome = o
	}
}

// reason is why the translator refused a call that ended with r; "" if it did not.
func (e *ends) reason(r *relay.Result) string {
	if refusal := e.refused.Load(); refusal != nil && r.Upstream && r.Code == uint32(codeOf(refusal.Kind)) {
		return refusal.Reason
	}
	return ""
}

// refuse is how the translator refuses a call: its caller gets the refusal, and the
// record its reason.
func (c *crossings) refuse(ctx context.Context, refusal *call.Refusal) error {
	if x, open := c.lookIn(ctx); open {
		x.ends.refused.Store(refusal)
	}
	return GRPCStatus(refusal).Err()
}
