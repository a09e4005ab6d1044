package gateway

import (
	"slices"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/retry"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// rows is a sequence of filters, in the order in which calls pass them.
type rows []row

// row is a filter in a list. The zero row marks the start of an attempt.
type row struct {
	name  string
	admit func(*callState) filter.Step
	done  func(*callState, *filter.Result) // optional
	// continued is called at the end of a stream that continues the call which the filter serves. It is optional.
	continued func(*callState, *relay.Result)
}

// continuer is a filter that serves calls, and must know how the continuing stream has ended.
type continuer[S any] interface {
	Continued(*filter.Call, *S, *relay.Result)
}

// bind returns a row for a filter with state.
func bind[S any](name string, f filter.Filter[S]) rows {
	state := stateOf[S]()
	bound := row{
		name:  name,
		admit: func(t *callState) filter.Step { return f.Admit(&t.Call, state(t)) },
		done:  func(t *callState, r *filter.Result) { f.Done(&t.Call, state(t), r) },
	}
	if c, ok := f.(continuer[S]); ok {
		bound.continued = func(t *callState, r *relay.Result) { c.Continued(&t.Call, state(t), r) }
	}
	return rows{bound}
}

// check returns a row for a stateless filter that rejects or continues.
func check(name string, of func(*filter.Call) *call.Refusal) rows {
	return rows{{name: name, admit: func(t *callState) filter.Step { return t.ContinueUnless(of(&t.Call)) }}}
}

// note returns a row for a stateless filter that never rejects.
func note(name string, of func(*filter.Call)) rows {
	return rows{{name: name, admit: func(t *callState) filter.Step {
		of(&t.Call)
		return filter.Continue
	}}}
}

// list is the sequence of filters of a kind of call.
type list struct {
	name     string
	driver   *driver
	rows     rows
	attempt  rowIndex // start of an attempt; len(rows) means a single attempt
	attempts int      // maximum
	// repeat returns the refusal that ends a call instead of another attempt; nil means another attempt follows.
	repeat func(t *callState, err error) *call.Refusal
}

// list returns a list of rows, of which at most one marks the start of an attempt.
func (d *driver) list(name string, all ...rows) *list {
	l := &list{name: name, driver: d, rows: slices.Concat(all...), attempts: retry.MaxAttempts, repeat: repeat}
	l.attempt = rowIndex(len(l.rows))
	if at := slices.IndexFunc(l.rows, func(r row) bool { return r.admit == nil }); at >= 0 {
		l.rows, l.attempt = slices.Delete(l.rows, at, at+1), rowIndex(at)
	}
	return l
}

// once limits calls to one attempt.
func (l *list) once() *list {
	l.attempts = 1
	return l
}

// rowIndex is the index of a row in its list. It is small because each open stream holds several.
type rowIndex int16

// doneTo calls the due Done functions of the rows from first on, in reverse order.
func (w *walk) doneTo(first rowIndex, t *callState, r filter.Result) {
	t.opening.result = r // not a variable, which would be allocated
	for w.due > first {
		w.due--
		if done := w.list.rows[w.due].done; done != nil {
			done(t, &t.opening.result)
		}
	}
	t.opening.result = filter.Result{}
}
