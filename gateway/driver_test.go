package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/filter/peek"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// fakeStream acts as the relay for a call, with a lock in place of a shard's and without a network.
type fakeStream struct {
	filter.Stream
	shard  sync.Mutex
	call   *callState
	parked int // number of Wait calls
	waits  bool
	over   bool
	log    []string
}

func (s *fakeStream) did(what string)         { s.log = append(s.log, what) }
func (s *fakeStream) ReadMessage()            { s.did("read any") }
func (s *fakeStream) ReadOnlyMessage()        { s.did("read") }
func (s *fakeStream) Reply(msg []byte)        { s.did("reply " + string(msg)) }
func (s *fakeStream) Refuse(relay.Status)     { s.did("refuse") }
func (s *fakeStream) Forward(*relay.Upstream) { s.did("forward") }

func (s *fakeStream) Serve(func(*relay.ServerStream) relay.Status) { s.did("serve") }

// Wait implements filter.Stream.
func (s *fakeStream) Wait() filter.Parked {
	s.parked, s.waits = s.parked+1, true
	return fakeParked{s, s.parked}
}

// fakeParked is a parked stream. The next Wait makes it out of date.
type fakeParked struct {
	s  *fakeStream
	at int
}

func (p fakeParked) Resume(take, gone func()) {
	p.s.shard.Lock()
	defer p.s.shard.Unlock()
	if p.s.over || !p.s.waits || p.s.parked != p.at {
		gone()
		return
	}
	p.s.waits = false
	take()
	p.s.call.walk.list.driver.walk(p.s.call)
}

// steps lists what a filter does, one entry per Admit.
type steps []func(*filter.Call) filter.Step

// fakeFilter does at each Admit what its next step says.
type fakeFilter struct {
	name  string
	s     *fakeStream
	steps steps // the last one repeats
}

func (f *fakeFilter) Admit(t *filter.Call, _ *peek.State) filter.Step {
	f.s.did(f.name)
	step := f.steps[0]
	if len(f.steps) > 1 {
		f.steps = f.steps[1:]
	}
	return step(t)
}

func (f *fakeFilter) Done(_ *filter.Call, _ *peek.State, r *filter.Result) {
	f.s.did(fmt.Sprintf("-%s(final %t, unsent %t)", f.name, r.Final, r.Unsent != nil))
}

type driven struct {
	*fakeStream
	driver *driver
	t      *callState
	list   *list
	no     *call.Refusal // refuses a further attempt; nil allows it
}

// newCallState returns the state of a call.
func newCallState() *callState {
	t := &callState{}
	new(shardCalls).open(t)
	return t
}

// drive makes a list of filters called a, b, c …; nil marks where an attempt begins.
func drive(all ...steps) *driven {
	s := &fakeStream{}
	t := newCallState()
	s.call, t.Stream = t, s
	d := &driven{fakeStream: s, t: t, driver: newDriver(status.NewCache())}
	d.driver.stream = func(*callState) stream { return s }
	var list rows
	for i, does := range all {
		if does == nil {
			list = append(list, row{})
			continue
		}
		f := &fakeFilter{name: string(rune('a' + i)), s: s, steps: does}
		list = append(list, bind(f.name, f)...)
	}
	d.list = d.driver.list("test", list)
	d.list.repeat = func(*callState, error) *call.Refusal { return d.no }
	return d
}

func (d *driven) begin() {
	d.shard.Lock()
	defer d.shard.Unlock()
	d.driver.begin(d.t, d.list)
}

func (d *driven) end() {
	d.shard.Lock()
	defer d.shard.Unlock()
	d.over = true
	d.driver.done(d.t, d.t.Stream, &relay.Result{})
}

func (d *driven) unsent() {
	d.shard.Lock()
	defer d.shard.Unlock()
	d.driver.again(d.t, errors.New("no connection"))
}

func (d *driven) is(t *testing.T, want ...string) {
	t.Helper()
	d.shard.Lock()
	defer d.shard.Unlock()
	if !slices.Equal(d.log, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(d.log, "; "), strings.Join(want, "; "))
	}
}

func goOn(*filter.Call) filter.Step     { return filter.Continue }
func ask(*filter.Call) filter.Step      { return filter.Read }
func anew(*filter.Call) filter.Step     { return filter.Again }
func send(t *filter.Call) filter.Step   { return t.Forward(&relay.Upstream{}) }
func answer(t *filter.Call) filter.Step { return t.Reply([]byte("yes")) }
func deny(t *filter.Call) filter.Step   { return t.Reject(filter.ShuttingDown) }

var attemptHere steps // where attempts begin

const (
	final   = "(final true, unsent false)"
	retried = "(final false, unsent true)"
	anewed  = "(final false, unsent false)"
)

// TestDoneInReverse: Done is called once for each Admit that did not reject, in reverse order.
func TestDoneInReverse(t *testing.T) {
	t.Parallel()
	forwarded := drive(steps{goOn}, steps{goOn}, steps{send})
	forwarded.begin()
	forwarded.end()
	forwarded.is(t, "a", "b", "c", "forward", "-c"+final, "-b"+final, "-a"+final)

	replied := drive(steps{goOn}, steps{answer}, steps{send})
	replied.begin()
	replied.end()
	replied.is(t, "a", "b", "reply yes", "-b"+final, "-a"+final)

	rejected := drive(steps{goOn}, steps{deny}, steps{send})
	rejected.begin()
	rejected.end()
	rejected.is(t, "a", "b", "refuse", "-a"+final)
	if rejected.t.Reason != filter.ShuttingDown.Reason {
		t.Errorf("reason %q", rejected.t.Reason)
	}

	panicked := drive(steps{goOn}, steps{func(*filter.Call) filter.Step { panic("a filter") }})
	func() {
		defer func() { _ = recover() }()
		panicked.begin()
	}()
	panicked.end() // as the relay does
	panicked.is(t, "a", "b", "-b"+final, "-a"+final)
}

// TestReadCallsAgain: the filter that requested the message receives it, and nothing of it is left when the
// call ends.
func TestReadCallsAgain(t *testing.T) {
	t.Parallel()
	var saw string
	d := drive(steps{goOn}, steps{ask, func(t *filter.Call) filter.Step {
		saw = string(t.Message.Data)
		t.Peeked = &filter.Peeked{Read: true}
		return filter.Continue
	}}, steps{send})
	d.begin()
	d.t.Message = relay.Message{Data: []byte("hello")}
	d.driver.walk(d.t)
	if saw != "hello" || d.t.Message.Data != nil || d.t.Peeked != nil {
		t.Errorf("the filter saw %q; the call still has %q, %v", saw, d.t.Message.Data, d.t.Peeked)
	}
	d.end()
	d.is(t, "a", "b", "read", "b", "c", "forward", "-c"+final, "-b"+final, "-a"+final)
}

// wait makes a filter wait; by receives the function that resumes the call.
func (d *driven) wait(by func(resume func() bool)) func(*callState) filter.Step {
	return func(t *callState) filter.Step {
		p := t.Park("")
		by(func() bool {
			goesOn := true
			p.ResumeOr(func() { t.Keyed = true }, func() { goesOn = false })
			return goesOn
		})
		return filter.Wait
	}
}

// TestResumeBeforeAdmitReturned: another goroutine may resume the call before Admit returns. The call continues
// where it waits, with the value that was left for it.
func TestResumeBeforeAdmitReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { //nolint:forbidigo // check is a function of this package
		d := drive(steps{goOn}, steps{goOn}, steps{send})
		resumed := false
		waiting := d.wait(func(resume func() bool) {
			d.did("waits")
			started := make(chan struct{})
			go func() {
				close(started)
				resumed = resume()
			}()
			<-started // the other goroutine is ahead of Admit and takes the shard's lock next
		})
		d.list.rows[1].admit = func(t *callState) filter.Step {
			if t.Keyed {
				d.did("b again")
				return filter.Continue
			}
			return waiting(t)
		}
		d.begin()
		synctest.Wait()
		d.end()
		d.is(t, "a", "waits", "b again", "c", "forward", "-c"+final, "-b"+final, "-a"+final)
		if !resumed {
			t.Error("Resume reports that the call had ended")
		}
	})
}

// TestEndedWhileParked: a call that ends while it is parked also releases what the waiting filter holds, and
// does not continue.
func TestEndedWhileParked(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, steps{goOn}, steps{send})
	var resume func() bool
	d.list.rows[1].admit = d.wait(func(r func() bool) { resume = r })
	d.begin()
	d.end()
	if resume() {
		t.Error("Resume reports that the call continues")
	}
	d.is(t, "a", "-b"+final, "-a"+final)
}

// TestResumeOnce: a filter that waits twice is not resumed by the first wait's event.
func TestResumeOnce(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, steps{send})
	var resumes []func() bool
	d.list.rows[0].admit = d.wait(func(r func() bool) { resumes = append(resumes, r) })
	d.begin()
	if !resumes[0]() || resumes[0]() || len(resumes) != 2 {
		t.Fatalf("%d waits", len(resumes))
	}
	d.end()
	d.is(t, "-a"+final)
}

// TestAttempts: a call that provably did not start begins another attempt. The filters of an attempt are done
// before the next one, the others only at the end of the call.
func TestAttempts(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, attemptHere, steps{goOn}, steps{send})
	d.begin()
	d.unsent()
	d.end()
	d.is(t, "a", "c", "d", "forward", "-d"+retried, "-c"+retried, "c", "d", "forward", "-d"+final, "-c"+final, "-a"+
		final)
}

// TestNoFurtherAttempt: a call that may not be attempted again is rejected. The filters of its last attempt
// learn why there was no further one.
func TestNoFurtherAttempt(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, attemptHere, steps{send})
	d.no = filter.ShuttingDown
	d.begin()
	d.unsent()
	d.end()
	d.is(t, "a", "c", "forward", "refuse", "-c(final true, unsent true)", "-a(final true, unsent true)")
}

// TestAgain: a filter can start the attempt again.
func TestAgain(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, attemptHere, steps{goOn}, steps{anew, send})
	d.begin()
	d.end()
	d.is(t, "a", "c", "d", "-d"+anewed, "-c"+anewed, "c", "d", "forward", "-d"+final, "-c"+final, "-a"+final)
}

// TestServedInside: a call that did not reach an in-process server is not attempted again.
func TestServedInside(t *testing.T) {
	t.Parallel()
	for _, d := range []*driven{drive(steps{goOn}, steps{send}, attemptHere, steps{send}),
		drive(steps{goOn}, steps{send})} {
		d.begin()
		d.unsent()
		d.end()
		d.is(t, "a", "b", "forward", "refuse", "-b"+final, "-a"+final)
		if d.t.Reason != filter.ShuttingDown.Reason {
			t.Errorf("reason %q", d.t.Reason)
		}
	}
}

// TestChain: every list ends in a filter that serves the call or returns an upstream. Only the lists of the
// gateway's own services omit the access log and resolve.
func TestChain(t *testing.T) {
	t.Parallel()
	c := newChain(&handler{cfg: &Config{}, shares: &shares{}})
	lists := []*list{c.call, c.upload, c.download, c.healthcheck, c.other, c.engine, c.internal, c.internalEngine,
		c.builtin, c.open}
	for _, l := range lists {
		var names []string
		for _, r := range l.rows {
			if r.admit == nil || r.name == "" {
				t.Errorf("%s has an empty row after %v; r %+v", l.name, names, r)
			}
			names = append(names, r.name)
		}
		inside := l == c.builtin || l == c.open
		if last := names[len(names)-1]; last != "forward" && last != "serve" && last != "health" {
			t.Errorf("%s ends with %s", l.name, last)
		}
		if inside == slices.Contains(names, "resolve") || inside == (names[0] == "accesslog") {
			t.Errorf("%s: %v", l.name, names)
		}
		if resolve, pick := slices.Index(names, "resolve"), slices.Index(names, "pick"); pick >= 0 &&
			(pick < int(l.attempt) || pick < resolve) {
			t.Errorf("%s picks too early: %v", l.name, names)
		}
	}
}

// BenchmarkDriver measures walking a list of sixteen filters, the maximum of a call, without the filters' own
// work.
func BenchmarkDriver(b *testing.B) {
	s := &fakeStream{log: make([]string, 0, 1)}
	t := newCallState()
	d := newDriver(status.NewCache())
	d.stream = func(*callState) stream { return quiet{s} }
	var all rows
	for range 15 {
		all = append(all, bind("row", nothing{})...)
	}
	up := &relay.Upstream{}
	all = append(all, row{name: "serve", admit: func(t *callState) filter.Step { return t.Forward(up) }})
	l := d.list("test", all)
	b.ReportAllocs()
	for b.Loop() {
		t.walk, *t.Answer() = walk{}, filter.Answer{}
		d.begin(t, l)
		d.done(t, t.Stream, nil)
	}
}

type quiet struct{ *fakeStream }

func (quiet) Forward(*relay.Upstream) {}

func (quiet) Serve(func(*relay.ServerStream) relay.Status) {}

type nothing struct{}

func (nothing) Admit(*filter.Call, *peek.State) filter.Step    { return filter.Continue }
func (nothing) Done(*filter.Call, *peek.State, *filter.Result) {}
