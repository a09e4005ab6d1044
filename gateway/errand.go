package gateway

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/telemetry"
)

// errand is a call with an idempotency key on its way to the keeper of answers and, if it is to be
// carried out, back through the gateway.
type errand struct {
	key  string
	only *call.Refusal // it may not be carried out, but may have been; nil: it may

	place  atomic.Int32                 // where its second passage is
	ended  chan ending                  // has room for one: what became of it there
	refuse atomic.Pointer[call.Refusal] // by the keeper
	replay atomic.Bool                  // it got the first call's answer
}

// ending is how a call ended.
type ending struct {
	how      idempotency.Outcome
	answered bool // with OK
}

const (
	ahead  int32 = iota // it has not begun
	begun               // it will say how it ended
	missed              // it must not begin any more
)

func newErrand(key string) *errand { return &errand{key: key, ended: make(chan ending, 1)} }

// take begins the second passage, if it may.
func (e *errand) take() bool { return e.place.CompareAndSwap(ahead, begun) }

// miss sees to it that no second passage begins, if none has.
func (e *errand) miss() bool { return e.place.CompareAndSwap(ahead, missed) }

// end says how the second passage ended.
func (e *errand) end(how ending) {
	select {
	case e.ended <- how:
	default:
	}
}

// record adds to a call's record what the keeper did for it.
func (e *errand) record(rec *telemetry.Record) {
	if r := e.refuse.Load(); r != nil && rec.Reason == "" {
		rec.Reason, rec.Shed = r.Reason, r.Reason == filter.Overloaded.Reason
	}
	rec.Replayed = e.replay.Load()
}

// fate is what a call that ended with r says of whether it was carried out. What backends answer
// proves that they had it, but for the codes that proxies and servers on their way out use, too.
func (t *callState) fate(r *relay.Result) (e ending) {
	switch {
	case !t.Attempt.Started || r.Forwarded == 0:
		e.how = idempotency.NotStarted
		return e
	case !r.Upstream || r.FirstByte == 0:
		return e
	}
	switch codes.Code(r.Code) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return e
	}
	return ending{how: idempotency.Executed, answered: r.Code == 0}
}
