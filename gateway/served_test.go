package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// twoStreams is a call on two streams: the caller's, which code in the process serves, and one that continues
// it.
type twoStreams struct {
	*driven
	first, second filter.Stream
}

// serve makes a list whose filter b serves the call, and begins it. The filters c and d come after b.
func serve(all ...steps) *twoStreams {
	by := func(t *filter.Call) filter.Step { return filter.Continue }
	d := drive(append([]steps{{goOn}, {by}}, all...)...)
	server := localgrpc.Server{}
	admit := d.list.rows[1].admit
	d.list.rows[1].admit = func(t *callState) filter.Step {
		admit(t)
		return t.ServeBy(&server, nil)
	}
	d.list.rows[1].continued = func(_ *callState, r *relay.Result) { d.did(fmt.Sprintf("b continued %d", r.Code)) }
	d.begin()
	return &twoStreams{d, d.t.Stream, &fakeStream{}}
}

func (s *twoStreams) proceed() { s.driver.proceed(s.t, s.second) }

func (s *twoStreams) ends(stream filter.Stream, r relay.Result) { s.driver.done(s.t, stream, &r) }

// TestServed: the stream that continues a served call passes the filters after the serving one, each once.
// Filters of the attempt get the end of their stream, the others that of the call.
func TestServed(t *testing.T) {
	t.Parallel()
	s := serve(attemptHere, steps{goOn}, steps{send})
	s.proceed()
	s.ends(s.second, relay.Result{Code: 5, Forwarded: 1})
	if s.t.walk.over || s.t.Stream != s.first {
		t.Errorf("the call ends with what continues it: over %t, now at stream %p, want %p",
			s.t.walk.over, s.t.Stream, s.first)
	}
	s.ends(s.first, relay.Result{})
	s.is(t, "a", "b", "serve", "d", "e", "forward", "-e"+final, "-d"+final, "b continued 5", "-b"+final, "-a"+final)
	if !s.t.walk.over {
		t.Error("the call goes on")
	}
}

// TestACallReportedAsNotStartedReachesNoBackend: such a call reaches no backend, even if the serving code continues it.
func TestACallReportedAsNotStartedReachesNoBackend(t *testing.T) {
	t.Parallel()
	s := serve(attemptHere, steps{goOn}, steps{send})
	s.t.walk.settled = true
	s.proceed()
	s.ends(s.second, relay.Result{Code: 1})
	s.ends(s.first, relay.Result{Code: 4})
	s.is(t, "a", "b", "serve", "refuse", "b continued 1", "-b"+final, "-a"+final)
}

// TestProgress: a call that provably did not start has no progress, unless a backend of an earlier attempt may
// have run it.
func TestProgress(t *testing.T) {
	t.Parallel()
	for _, past := range []call.Progress{call.NotSent, call.Sent} {
		d := drive(steps{goOn}, attemptHere, steps{send, goOn}, steps{deny})
		var atEnd call.Progress
		d.list.rows[0].done = func(t *callState, _ *filter.Result) { atEnd = t.Attempt.Progress }
		if d.begin(); d.t.Attempt.Progress != call.Sent {
			t.Errorf("a call at a backend: %d", d.t.Attempt.Progress)
		}
		d.t.walk.past = past
		d.unsent()
		d.end()
		if atEnd != past {
			t.Errorf("after %d the second attempt ends with %d", past, atEnd)
		}
	}
}

// TestProgressOfServedCalls: a served call may have run if a backend has it, or if the serving code has done,
// or may do, more than continue it. Otherwise it can no longer reach a backend once its caller has the result.
func TestProgressOfServedCalls(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		call, code         call.Progress
		continued          bool
		ended, byRejection call.Progress // what the caller learns if the relay ends the call, or the code rejects it
	}{
		{call.NotSent, call.NotSent, false, call.NotSent, call.NotSent},
		{call.NotSent, call.NotSent, true, call.NotSent, call.Sent},
		{call.Sent, call.NotSent, true, call.Sent, call.Sent},
		{call.NotSent, call.Answered, false, call.Sent, call.NotSent},
		{call.NotSent, call.Sent, false, call.Sent, call.Sent},
	} {
		s, c := &relay.Stream{}, newCallState()
		c.walk.serving = &serving{Served: &filter.Served{}, stream: relayed{s}}
		c.Attempt.Progress = test.call
		c.walk.serving.SetProgress(test.code)
		c.walk.serving.Continued.Store(test.continued)
		if got := refusedAt(c.walk.serving.Served); got != test.byRejection {
			t.Errorf("%+v: rejected with %d", test, got)
		}
		if got := c.walk.progress(c, s); got != test.ended || c.walk.settled != (got == call.NotSent) {
			t.Errorf("%+v: ended with %d, settled %t", test, got, c.walk.settled)
		}
	}
}

// TestResultsOutliveStreams: what a filter keeps of a backend's stream is not part of that stream, which the
// relay reuses.
func TestResultsOutliveStreams(t *testing.T) {
	t.Parallel()
	var kept *relay.Result
	c := newCallState()
	c.walk.list = &list{rows: []row{{continued: func(_ *callState, r *relay.Result) { kept = r }}}}
	v, ofStream := &serving{Served: &filter.Served{}}, relay.Result{Code: 14, Forwarded: 1}
	v.continued(c, &ofStream, &ofStream)
	ofStream = relay.Result{}
	if kept.Code != 14 || v.last.Code != 14 {
		t.Errorf("kept %+v and %+v", kept, v.last)
	}
}

// TestALostAttemptCounts: the reason that prevents a further attempt does not replace the result of the call.
func TestALostAttemptCounts(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, attemptHere, steps{send})
	d.begin()
	d.t.walk.past = call.Sent
	d.driver.reject(d.t, filter.Overloaded)
	if d.is(t, "a", "c", "forward", "refuse"); d.t.Reason != "UPSTREAM_LOST" {
		t.Errorf("the reason is %s", d.t.Reason)
	}
}

// TestServedInAnAttempt: the call continues in the attempt in which it is served. Continued again, it makes
// another one.
func TestServedInAnAttempt(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, attemptHere, steps{goOn}, steps{goOn}, steps{send})
	server := localgrpc.Server{}
	d.list.rows[2].admit = func(t *callState) filter.Step {
		d.did("d")
		if d.t.Keyed { // it was served
			return filter.Continue
		}
		d.t.Keyed = true
		return t.ServeBy(&server, nil)
	}
	d.begin()
	s := &twoStreams{d, d.t.Stream, &fakeStream{}}
	s.proceed()
	s.ends(s.second, relay.Result{Forwarded: 1})
	s.second = &fakeStream{}
	s.proceed()
	s.ends(s.second, relay.Result{Forwarded: 1})
	s.ends(s.first, relay.Result{})
	s.is(t, "a", "c", "d", "serve", "e", "forward", "-e"+final, "-d"+final, "-c"+final,
		"c", "d", "e", "forward", "-e"+final, "-d"+final, "-c"+final, "-a"+final)
}

// TestServedAlone: if a served call is not continued, the filters of the attempt learn that it reached no
// backend.
func TestServedAlone(t *testing.T) {
	t.Parallel()
	d := drive(steps{goOn}, attemptHere, steps{goOn}, steps{send})
	var atBackend time.Duration
	d.list.rows[1].done = func(_ *callState, r *filter.Result) { atBackend = r.Forwarded }
	d.list.rows[2].admit = func(t *callState) filter.Step { return t.ServeBy(&localgrpc.Server{}, nil) }
	d.begin()
	d.t.walk.serving.Refused.Store(filter.Malformed)
	d.driver.done(d.t, d.t.Stream, &relay.Result{Code: uint32(status.CodeOf(filter.Malformed.Kind)), Upstream: true,
		Forwarded: 7})
	if atBackend != 0 || d.t.Reason != filter.Malformed.Reason || !d.t.walk.over {
		t.Errorf("%v, %q, over %t", atBackend, d.t.Reason, d.t.walk.over)
	}
}

// TestServedOutlives: a call whose caller has left ends with the stream that continues it, since the caller's
// stream has ended.
func TestServedOutlives(t *testing.T) {
	t.Parallel()
	s := serve(attemptHere, steps{goOn}, steps{send})
	var got relay.Result
	s.list.rows[0].done = func(_ *callState, r *filter.Result) { got = *r.Result }
	began := time.Now()
	s.proceed()
	s.ends(s.first, relay.Result{Code: 1, Failure: relay.ClientGone, BytesIn: 3, Started: began, Forwarded: 1,
		Ended: 10})
	s.is(t, "a", "b", "serve", "d", "e", "forward")
	s.ends(s.second, relay.Result{Upstream: true, Started: began.Add(2), Forwarded: 3, FirstByte: 4, Ended: 20})
	s.is(t, "a", "b", "serve", "d", "e", "forward", "-e"+final, "-d"+final, "b continued 0", "-b"+final)
	if want := (relay.Result{Code: 1, Failure: relay.ClientGone, BytesIn: 3, Started: began, Forwarded: 5, FirstByte: 6,
		Ended: 22}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestServedRejected: the reason with which a filter rejects the continuing stream is that of the call, if its
// caller gets the same code.
func TestServedRejected(t *testing.T) {
	t.Parallel()
	for code, want := range map[uint32]string{
		uint32(status.CodeOf(filter.ShuttingDown.Kind)): filter.ShuttingDown.Reason, 1: ""} {
		s := serve(attemptHere, steps{deny}, steps{send})
		s.proceed()
		s.ends(s.second, relay.Result{Code: uint32(status.CodeOf(filter.ShuttingDown.Kind))})
		s.ends(s.first, relay.Result{Code: code, Upstream: true})
		if s.t.Reason != want {
			t.Errorf("%d: %q, want %q", code, s.t.Reason, want)
		}
	}
}

// TestServedTwice: the stream that continues a call may be served too.
func TestServedTwice(t *testing.T) {
	t.Parallel()
	s := serve(attemptHere, steps{goOn}, steps{send})
	again := s.list.rows[2].admit
	s.list.rows[2].admit = func(t *callState) filter.Step {
		again(t)
		return t.ServeBy(&localgrpc.Server{}, nil)
	}
	s.proceed()
	third := &fakeStream{}
	s.driver.proceed(s.t, third)
	s.ends(third, relay.Result{Code: 9, Forwarded: 1})
	s.ends(s.second, relay.Result{Code: 2, Upstream: true, Forwarded: 1})
	s.ends(s.first, relay.Result{Code: 2, Upstream: true})
	s.is(t, "a", "b", "serve", "d", "serve", "e", "forward", "-e"+final, "-d"+final, "b continued 9", "-b"+final,
		"-a"+final)
}
