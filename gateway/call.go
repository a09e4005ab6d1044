package gateway

import (
	"math/rand/v2"
	"sync"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// callState is a call while it passes: what its filters share, and what each remembers. It is the Value of the call's
// stream, belongs to it from Headers to Done, and is used again after that.
type callState struct {
	filter.Call
	walk walk // along the filters
	states
}

type callPool struct{ pool sync.Pool }

// get begins a call: what its headers say, in strings that outlive them.
func (p *callPool) get(s *relay.Stream) *callState {
	t, _ := p.pool.Get().(*callState)
	if t == nil {
		t = &callState{}
	}
	s.Value, t.Stream = t, relayed{s}
	t.readMethod(s.Path())
	t.setRequestID(s)
	return t
}

// setRequestID sets the call's id to the one that its headers have, or else to a new one, which the backend gets too.
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

func (p *callPool) put(t *callState) {
	t.Reset()
	*t = callState{Call: t.Call, states: states{forward: t.forward.Keep()}}
	p.pool.Put(t)
}

func callOf(s *relay.Stream) *callState { return s.Value.(*callState) }

// relayed is a stream of the relay.
type relayed struct{ *relay.Stream }

// Wait implements filter.Stream.
func (s relayed) Wait() filter.Parked { return parked{s.Park()} }

// parked is a stream of the relay that waits.
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

// readMethod finds out which method the path names. A path that is none is not decoded or cleaned, as some backends
// would: the call has no service then, and is rejected before anything is done for it.
func (t *callState) readMethod(path string) {
	if e, ok := dialect.Lookup(path); ok {
		t.Spoken = e
		t.Info.Method, t.Info.Dialect, t.Info.Service = e.Method, e.Dialect, e.Service
		t.Info.Path, _ = dialect.Path(e.Method, e.Dialect)
		return
	}
	t.Info.Path = t.Keep(path)
	service, _, ok := call.SplitPath(t.Info.Path)
	if !ok {
		return
	}
	t.Info.Service = service
}
