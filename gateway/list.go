package gateway

import (
	"slices"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// rows are filters in the order in which calls pass them.
type rows []row

// row is a filter in a list; the zero row is where an attempt begins.
type row struct {
	name  string
	admit func(*callState) filter.Step
	done  func(*callState, *filter.Result) // nil means the filter has nothing to give back
	// continued is called when a stream has ended that continues the call which the filter serves; nil means it need
	// not know.
	continued func(*callState, *relay.Result)
}

// continuer is a filter that serves calls, and has to know what became of what continues them: how the stream at the
// backend has ended, or the one that never got there.
type continuer[S any] interface {
	Continued(*filter.Call, *S, *relay.Result)
}

// bind makes a row of a filter and what that remembers of a call.
func bind[S any](name string, f filter.Filter[S]) rows {
	state := stateOf[S]()
	bound := row{
		name:  name,
		admit: func(t *callState) filter.Step { return f.Admit(&t.Call, state(&t.states)) },
		done:  func(t *callState, r *filter.Result) { f.Done(&t.Call, state(&t.states), r) },
	}
	if c, ok := f.(continuer[S]); ok {
		bound.continued = func(t *callState, r *relay.Result) { c.Continued(&t.Call, state(&t.states), r) }
	}
	return rows{bound}
}

// check makes a row of a filter that remembers nothing, and only rejects or continues.
func check(name string, of func(*filter.Call) *call.Refusal) rows {
	return rows{{name: name, admit: func(t *callState) filter.Step { return t.ContinueUnless(of(&t.Call)) }}}
}

// note makes a row of a filter that remembers nothing, and never rejects.
func note(name string, of func(*filter.Call)) rows {
	return rows{{name: name, admit: func(t *callState) filter.Step {
		of(&t.Call)
		return filter.Continue
	}}}
}

// list is the filters of a kind of call, in order.
type list struct {
	name     string
	driver   *driver
	rows     rows
	attempt  rowIndex // where an attempt begins; len(rows): there is only one
	attempts int      // at most
	// repeat says whether an attempt follows one that provably did not start, or may be carried out twice.
	repeat func(t *callState, err error) *call.Refusal
}

// list makes a list of rows, of which one may be where an attempt begins.
func (d *driver) list(name string, all ...rows) *list {
	l := &list{name: name, driver: d, rows: slices.Concat(all...), attempts: retry.MaxAttempts, repeat: repeat}
	l.attempt = rowIndex(len(l.rows))
	if at := slices.IndexFunc(l.rows, func(r row) bool { return r.admit == nil }); at >= 0 {
		l.rows, l.attempt = slices.Delete(l.rows, at, at+1), rowIndex(at)
	}
	return l
}

// once lets calls make one attempt only.
func (l *list) once() *list {
	l.attempts = 1
	return l
}

// rowIndex is the place of a row in its list. It is small, because each open stream has some.
type rowIndex int16

// doneTo calls Done of the rows from that one on for which it is due, the last first.
func (w *walk) doneTo(first rowIndex, t *callState, r filter.Result) {
	w.result = r
	for w.due > first {
		w.due--
		if done := w.list.rows[w.due].done; done != nil {
			done(t, &w.result)
		}
	}
	w.result = filter.Result{}
}
