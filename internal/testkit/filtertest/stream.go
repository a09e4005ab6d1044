package filtertest

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
)

// Stream is a call's stream without a relay. Fields that a test does not set are zero.
type Stream struct {
	Fields   map[string][]string // request headers; SetHeader and DropHeader change them
	Host     string              // :authority
	Twice    string              // a header that wrongly occurs more than once
	Protobuf bool                // the content type is gRPC's
	Client   relay.Peer
	Begun    time.Time
	Full     bool // the owner's memory is used up

	Path     string        // the argument of SetPath
	Deadline time.Duration // the argument of SetDeadline
	Groups   []*relay.Group
	Limits   relay.Limits
	Tap      relay.Tap
	Doubts   bool          // DoubtRefusals was called
	Resumed  chan struct{} // gets a value for each Resume

	dropped map[string][]string

	mu    sync.Mutex
	waits int // number of waits; only the last one can be resumed
	woken bool
	ended bool
}

// NewCall returns a call and its stream, with headers as pairs of name and value.
func NewCall(headers ...string) (*filter.Call, *Stream) {
	s := &Stream{Fields: map[string][]string{}, Resumed: make(chan struct{}, 16), Protobuf: true}
	for i := 0; i+1 < len(headers); i += 2 {
		s.Fields[headers[i]] = append(s.Fields[headers[i]], headers[i+1])
	}
	return &filter.Call{Opening: &filter.Opening{}, Stream: s}, s
}

// Header implements filter.Headers.
func (s *Stream) Header(name string) (string, bool) {
	if v := s.Fields[name]; len(v) > 0 {
		return v[0], true
	}
	return "", false
}

// Contradicts implements filter.Headers. Like the relay, it includes dropped headers.
func (s *Stream) Contradicts(name string) bool {
	return len(slices.Compact(slices.Concat(s.Fields[name], s.dropped[name]))) > 1
}

// SetHeader implements filter.Headers.
func (s *Stream) SetHeader(name, value string) { s.Fields[name] = []string{value} }

// DropHeader implements filter.Headers.
func (s *Stream) DropHeader(name string) {
	if s.dropped == nil {
		s.dropped = map[string][]string{}
	}
	s.dropped[name] = append(s.dropped[name], s.Fields[name]...)
	delete(s.Fields, name)
}

// Authority implements filter.Stream.
func (s *Stream) Authority() string { return s.Host }

// Repeated implements filter.Stream.
func (s *Stream) Repeated() string { return s.Twice }

// Proto implements filter.Stream.
func (s *Stream) Proto() bool { return s.Protobuf }

// SetPath implements filter.Stream.
func (s *Stream) SetPath(path string) { s.Path = path }

// Peer implements filter.Stream.
func (s *Stream) Peer() *relay.Peer { return &s.Client }

// Shard implements filter.Stream.
func (s *Stream) Shard() int { return 0 }

// Started implements filter.Stream.
func (s *Stream) Started() time.Time { return s.Begun }

// Now implements filter.Stream.
func (*Stream) Now() time.Time { return time.Now() }

// Timeout implements filter.Stream. It supports only milliseconds.
func (s *Stream) Timeout() (time.Duration, bool) {
	text, given := s.Header("grpc-timeout")
	if !given || text[len(text)-1] != 'm' {
		return 0, false
	}
	n, err := strconv.Atoi(text[:len(text)-1])
	return time.Duration(n) * time.Millisecond, err == nil
}

// SetDeadline implements filter.Stream.
func (s *Stream) SetDeadline(d time.Duration) { s.Deadline = d }

// Left implements filter.Stream.
func (s *Stream) Left() time.Duration { return s.Deadline }

// Charge implements filter.Stream.
func (s *Stream) Charge(g *relay.Group) bool {
	s.Groups = append(s.Groups, g)
	return !s.Full
}

// Join implements filter.Stream.
func (s *Stream) Join(g *relay.Group) time.Duration {
	s.Groups = append(s.Groups, g)
	return g.Behind()
}

// Limit implements filter.Stream.
func (s *Stream) Limit(l relay.Limits) { s.Limits = l }

// DoubtRefusals implements filter.Stream.
func (s *Stream) DoubtRefusals() { s.Doubts = true }

// TapResponse implements filter.Stream.
func (s *Stream) TapResponse(t relay.Tap) { s.Tap = t }

// Wait implements filter.Stream.
func (s *Stream) Wait() filter.Parked {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits, s.woken = s.waits+1, false
	return parked{s, s.waits}
}

// Waits reports whether the call waits.
func (s *Stream) Waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits > 0 && !s.woken && !s.ended
}

// End ends the call: a later Resume has no effect.
func (s *Stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

type parked struct {
	s  *Stream
	at int
}

// Resume implements filter.Parked. The test, not a driver, continues the call after it has received from Resumed.
func (p parked) Resume(take, gone func()) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.s.ended || p.s.woken || p.s.waits != p.at {
		gone()
		return
	}
	p.s.woken = true
	take()
	p.s.Resumed <- struct{}{}
}

var _ filter.Stream = (*Stream)(nil)
