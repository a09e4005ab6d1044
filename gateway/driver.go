package gateway

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Step is what a filter has decided about a call for now.
type Step uint8

// The steps.
const (
	Continue Step = iota // to the next filter
	Read                 // the first message, which is also the only one; Admit is called again with it
	ReadAny              // the first message of those that may come; Admit is called again with it
	Wait                 // until pause.Resume, which the filter has arranged for; Admit is called again then
	Stop                 // the call has its answer: after reject, reply or serve
	Again                // the attempt begins anew
)

// A filter decides one thing about calls. It is shared by all of them; S is what it remembers of one.
type filter[S any] interface {
	// Admit runs on a connection's reader: it answers from memory and never blocks.
	Admit(*transit, *S) Step
	// Done runs once for each Admit that did not reject, also for one that still waits, in reverse order;
	// for filters of an attempt also before each further one.
	Done(*transit, *S, *result)
}

// result is how a call ended, or an attempt of it.
type result struct {
	*relay.Result       // of the call; nil for an attempt that another one follows
	Final         bool  // the call has ended
	unsent        error // why the attempt was none; nil: it was one, or asked for another itself
}

// row is a filter in a list.
type row struct {
	name  string
	admit func(*transit) Step
	done  func(*transit, *result) // nil: the filter has nothing to give back
}

// bind makes a row of a filter. state finds what it remembers of a call.
func bind[S any](name string, f filter[S], state func(*transit) *S) row {
	return row{
		name:  name,
		admit: func(t *transit) Step { return f.Admit(t, state(t)) },
		done:  func(t *transit, r *result) { f.Done(t, state(t), r) },
	}
}

// check makes a row of a filter that remembers nothing, and only rejects or continues.
func check(name string, of func(*transit) *call.Refusal) row {
	return row{name: name, admit: func(t *transit) Step { return t.admitUnless(of(t)) }}
}

// note makes a row of a filter that remembers nothing, and never rejects.
func note(name string, of func(*transit)) row {
	return row{name: name, admit: func(t *transit) Step {
		of(t)
		return Continue
	}}
}

// list is the filters of a kind of call, in order.
type list struct {
	name     string
	rows     []row
	attempt  int // the row at which an attempt begins; len(rows): there is only one
	attempts int // at most
	// repeat says whether an attempt follows one that provably did not start, or may be carried out twice.
	repeat func(t *transit, err error) *call.Refusal
}

// walk is where a call is in its list, and what its last filter decided.
type walk struct {
	list     *list
	at       int // the row that decides
	due      int // rows whose Done is due
	result   result
	unsent   error // why the last attempt was none
	refusal  *call.Refusal
	upstream *relay.Upstream
	answer   []byte
}

// driver takes calls along their lists. It alone rejects, answers and hands out upstreams, so that no
// filter can be passed by. All of it runs with the shard of the call's stream locked.
type driver struct {
	statuses *statuses
	stream   func(*transit) stream // of a call; in tests there is no network
}

// stream is what the driver does with a relay.Stream.
type stream interface {
	ReadMessage()
	ReadOnlyMessage()
	Reply(msg []byte)
	Refuse(st relay.Status)
	Forward(u *relay.Upstream)
	park() parked
}

// parked is a relay.Parked.
type parked interface {
	Resume(f func(*relay.Stream)) bool
}

// relayed is a stream of the relay.
type relayed struct{ *relay.Stream }

func (s relayed) park() parked { return s.Park() }

func newDriver(st *statuses) *driver {
	return &driver{statuses: st, stream: func(t *transit) stream { return relayed{t.stream} }}
}

// begin takes a call along its list until it waits or has its answer. The call may be over when it returns.
func (d *driver) begin(t *transit, l *list) {
	t.walk.list = l
	d.walk(t)
}

// walk goes on at the row where the call is. It does not touch the call after what may end it.
func (d *driver) walk(t *transit) {
	w := &t.walk
	for ; w.at < len(w.list.rows); w.at++ {
		w.due = w.at + 1 // before Admit, which may panic
		switch w.list.rows[w.at].admit(t) {
		case Continue:
		case Again:
			d.undo(t)
			w.at = w.list.attempt - 1
		case Read:
			t.forgetMessage()
			d.stream(t).ReadOnlyMessage()
			return
		case ReadAny:
			t.forgetMessage()
			d.stream(t).ReadMessage()
			return
		case Wait:
			t.forgetMessage()
			return
		case Stop:
			if w.refusal != nil {
				w.due = w.at
			}
			d.end(t)
			return
		}
	}
	d.end(t.rejected(refusedPanic)) // a list without an end
}

// end does what the last filter decided.
func (d *driver) end(t *transit) {
	t.forgetMessage()
	w, s := &t.walk, d.stream(t)
	switch {
	case w.refusal != nil:
		t.reason = w.refusal.Reason
		s.Refuse(d.statuses.of(w.refusal))
	case w.upstream != nil:
		s.Forward(w.upstream)
	default:
		s.Reply(w.answer)
	}
}

// again begins another attempt of a call that did not start where it was sent, if it may have one.
func (d *driver) again(t *transit, err error) {
	w := &t.walk
	w.upstream = nil
	if w.at < w.list.attempt {
		d.end(t.rejected(refusedService)) // it was sent to a service of the gateway's own
		return
	}
	w.unsent = err
	if refusal := w.list.repeat(t, err); refusal != nil {
		d.end(t.rejected(refusal)) // done ends the attempt, too
		return
	}
	d.undo(t)
	w.at = w.list.attempt
	d.walk(t)
}

// undo has the filters of an attempt give back what it had, before another one.
func (d *driver) undo(t *transit) {
	w := &t.walk
	w.doneTo(w.list.attempt, t, result{unsent: w.unsent})
	w.unsent = nil
}

// done has all filters give back what the call had.
func (d *driver) done(t *transit, r *relay.Result) {
	t.forgetMessage()
	t.walk.doneTo(0, t, result{Result: r, Final: true, unsent: t.walk.unsent})
}

// doneTo calls Done of the rows from that one on for which it is due, the last first.
func (w *walk) doneTo(first int, t *transit, r result) {
	w.result = r
	for w.due > first {
		w.due--
		if done := w.list.rows[w.due].done; done != nil {
			done(t, &w.result)
		}
	}
	w.result = result{}
}

// pause is a call that waits.
type pause struct {
	parked parked
	driver *driver
	what   string // that it waits for, in its trace; "": that is not told
}

// park lets a call wait. Its filter is to return Wait.
func (d *driver) park(t *transit, what string) pause {
	p := pause{d.stream(t).park(), d, what}
	if what != "" {
		t.span.Wait(what)
	}
	return p
}

// Resume lets the call go on at the filter where it waits, which finds what take has left in its state. It is for
// another goroutine than the one that called park, and may come before Admit has returned there. Where the call
// has ended meanwhile take is not called, and Resume returns false.
func (p pause) Resume(take func(*transit)) bool {
	return p.parked.Resume(func(s *relay.Stream) {
		t := transitOf(s)
		if p.what != "" {
			t.span.GoOn(p.what)
		}
		take(t)
		p.driver.walk(t)
	})
}

// reject ends a call with the gateway's own "no".
func (t *transit) reject(refusal *call.Refusal) Step {
	t.walk.refusal = refusal
	return Stop
}

func (t *transit) rejected(refusal *call.Refusal) *transit {
	t.walk.refusal = refusal
	return t
}

// admitUnless continues, unless there is a refusal.
func (t *transit) admitUnless(refusal *call.Refusal) Step {
	if refusal != nil {
		return t.reject(refusal)
	}
	return Continue
}

// reply ends a call with one message.
func (t *transit) reply(msg []byte) Step {
	t.walk.answer = msg
	return Stop
}

// serve sends a call to an upstream.
func (t *transit) serve(u *relay.Upstream) Step {
	t.walk.upstream = u
	return Stop
}
