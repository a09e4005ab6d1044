package gateway

import (
	"encoding/binary"
	"math/rand/v2"

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

// callPool reuses the memory of calls. Each shard has its own, so the shard's lock guards it.
type callPool []shardCalls

// of returns the memory for calls of a stream's shard. A nil pool reuses nothing.
func (p callPool) of(s *relay.Stream) *shardCalls {
	if p == nil {
		return &shardCalls{}
	}
	return &p[s.Shard()]
}

// shardCalls is the unused memory of the calls of a shard.
type shardCalls struct {
	calls    freeList[callState]
	openings freeList[opening]
}

// freeList holds unused objects, which are zero but for what their put keeps.
type freeList[T any] []*T

// keepCalls is the maximum length of a freeList.
const keepCalls = 512

func (l *freeList[T]) get() *T {
	last := len(*l) - 1
	if last < 0 {
		return new(T)
	}
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}

func (l *freeList[T]) put(x *T) {
	if len(*l) < keepCalls {
		*l = append(*l, x)
	}
}

// get starts a call from its headers. Its strings outlive the headers.
func (p *shardCalls) get(s *relay.Stream) *callState {
	t := p.calls.get()
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
	var id [requestIDLen + 6]byte
	for at := 0; at < requestIDLen; at += 8 {
		binary.LittleEndian.PutUint64(id[at:], base32of(rand.Uint64()))
	}
	t.RequestID = t.Keep(filter.View(id[:requestIDLen]))
	s.SetHeader(filter.RequestIDHeader, t.RequestID)
}

// requestIDLen is the length of an id in base32, of 130 bits.
const requestIDLen = 26

// base32of returns the low 40 bits of n in the alphabet of RFC 4648 §6, as eight bytes.
func base32of(n uint64) uint64 {
	const bytes = 0x0101_0101_0101_0101
	n = n&0xf_ffff | n>>20&0xf_ffff<<32
	n = n&0x3ff_0000_03ff | n>>10&0x3ff_0000_03ff<<16
	n = n&0x1f_001f_001f_001f | n>>5&0x1f_001f_001f_001f<<8
	digits := (n + (0x80-26)*bytes) >> 7 & bytes // 1 in each byte from 26 on, which becomes a digit
	return n + 'A'*bytes - digits*('A'+26-'2')
}

// put ends a call, whose opening is attached.
func (p *shardCalls) put(t *callState) {
	t.Reset()
	*t.opening = opening{}
	*t = callState{Call: t.Call, states: states{forward: t.forward.Keep()}, opening: t.opening}
	p.calls.put(t)
}

// release detaches the opening of a call.
func (p *shardCalls) release(t *callState) {
	o := t.opening
	t.opening, t.Opening = nil, nil
	*o = opening{}
	p.openings.put(o)
}

// open attaches an empty opening to a call that has none.
func (p *shardCalls) open(t *callState) {
	if t.opening == nil {
		t.opening = p.openings.get()
		t.Opening = &t.opening.Opening
	}
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
