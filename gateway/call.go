package gateway

import (
	"math/rand/v2"
	"sync"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// callState is the state of a call: the part that filters share, and the state of each filter. It is the Value of the
// call's stream from Headers to Done, and is reused after that.
type callState struct {
	filter.Call
	walk walk // position in the list of filters
	states
	opening *opening // has Call.Opening; nil while the response runs
}

// opening is the part of a call's state that is not held while the response runs.
type opening struct {
	filter.Opening
	openingStates
	unsent error         // why the last attempt did not start
	result filter.Result // for doneTo
}

// callPool reuses the memory of calls.
type callPool struct{ calls, openings sync.Pool }

// get starts a call from its headers. Its strings outlive the headers.
func (p *callPool) get(s *relay.Stream) *callState {
	t, _ := p.calls.Get().(*callState)
	if t == nil {
		t = &callState{}
	}
	p.open(t)
	s.Value, t.Stream = t, relayed{s}
	t.readMethod(s.Path())
	t.setRequestID(s)
	return t
}

// setRequestID sets the call's id from its headers, or to a new one, which the backend receives too.
func (t *callState) setRequestID(s *relay.Stream) {
	if id, _ := s.Header(filter.RequestIDHeader); id != "" {
		t.RequestID = t.Keep(id)
		return
	}
	var id [26]byte
	for half := range 2 {
		for i, bits := 0, rand.Uint64(); i < len(id)/2; i, bits = i+1, bits>>5 {
			id[half*len(id)/2+i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[bits&31]
		}
	}
	t.RequestID = t.Keep(filter.View(id[:]))
	s.SetHeader(filter.RequestIDHeader, t.RequestID)
}

// put ends a call, whose opening is attached.
func (p *callPool) put(t *callState) {
	t.Reset()
	*t.opening = opening{}
	*t = callState{Call: t.Call, states: states{forward: t.forward.Keep()}, opening: t.opening}
	p.calls.Put(t)
}

// release detaches the opening of a call.
func (p *callPool) release(t *callState) {
	o := t.opening
	t.opening, t.Opening = nil, nil
	*o = opening{}
	p.openings.Put(o)
}

// open attaches an empty opening to a call that has none.
func (p *callPool) open(t *callState) {
	if t.opening != nil {
		return
	}
	o, _ := p.openings.Get().(*opening)
	if o == nil {
		o = &opening{}
	}
	t.opening, t.Opening = o, &o.Opening
}

func callOf(s *relay.Stream) *callState { return s.Value.(*callState) }

// relayed is a stream of the relay as a filter.Stream.
type relayed struct{ *relay.Stream }

// Wait implements filter.Stream.
func (s relayed) Wait() filter.Parked { return parked{s.Park()} }

// parked is a waiting stream of the relay.
type parked struct{ relay.Parked }

// Resume implements filter.Parked.
func (p parked) Resume(take, gone func()) {
	p.Parked.Resume(func(s *relay.Stream) {
		if s == nil {
			gone()
			return
		}
		take()
		t := callOf(s)
		t.walk.list.driver.walk(t)
	})
}

// readMethod sets the method from the path. A malformed path is not decoded or cleaned, as some backends would do: the
// call then has no service, and is rejected before any other work.
func (t *callState) readMethod(path string) {
	if e, ok := dialect.Lookup(path); ok {
		t.Spoken = e
		t.Info.Method, t.Info.Dialect, t.Service = e.Method, e.Dialect, e.Service
		t.Info.Path, _ = dialect.Path(e.Method, e.Dialect)
		return
	}
	t.Info.Path = t.Keep(path)
	service, _, ok := call.SplitPath(t.Info.Path)
	if !ok {
		return
	}
	t.Service = service
}
