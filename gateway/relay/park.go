package relay

import "sync/atomic"

// Parked is a stream that waits for a decision.
type Parked struct {
	in     *parking // not read from the stream, which may be reused for another call
	ticket uint64
}

// parking is the state of a parked stream. It is an event, because the goroutine that resumes a stream does not hold
// its shard's lock.
type parking struct {
	event  event
	sh     *shard        // the stream's shard; not read from the stream, which may be reset while Resume runs
	stream *Stream       // under the shard's lock
	resume func(*Stream) // set by the goroutine that claimed the ticket, until act

	// ticket is the ticket of the Parked that may still resume the stream, or claimed, or 0.
	ticket atomic.Uint64
	issued uint64 // last ticket; under the shard's lock
}

// claimed replaces a ticket between Resume and act.
const claimed = ^uint64(0)

func newParking(s *Stream) *parking {
	p := &parking{sh: s.sh, stream: s}
	p.event.of = p
	return p
}

// Park makes the stream wait for Resume, which may be called from any goroutine.
func (s *Stream) Park() Parked {
	s.phase = parked
	if s.parking == nil {
		s.parking = newParking(s)
	}
	p := s.parking
	p.issued++
	p.ticket.Store(p.issued)
	return Parked{p, p.issued}
}

// Resume calls f once: with the stream, or with nil if the stream has ended meanwhile or was already resumed. f must
// Forward, Reply, Refuse, Serve or Park the stream, or call ReadMessage if the first message was not read yet. f may
// run after Resume has returned, on the goroutine that holds the lock of the stream's shard: f must not block.
func (p Parked) Resume(f func(*Stream)) {
	if !p.in.ticket.CompareAndSwap(p.ticket, claimed) {
		f(nil)
		return
	}
	p.in.resume = f
	p.in.sh.post(&p.in.event)
}

// act implements actor.
func (p *parking) act() {
	s, f := p.stream, p.resume
	p.resume = nil
	if s.parking != p || s.phase != parked {
		p.ticket.Store(0)
		s.callResume(f, nil)
		return
	}
	p.ticket.Store(0)
	s.phase = deciding
	s.callResume(f, s)
	if s.phase == reading {
		s.readHeld() // the message may have arrived meanwhile
	}
}

// unpark prevents any Parked from resuming the stream. A Resume in progress keeps its parking.
func (s *Stream) unpark() {
	p := s.parking
	if p == nil {
		return
	}
	if t := p.ticket.Load(); t != 0 && (t == claimed || !p.ticket.CompareAndSwap(t, 0)) {
		s.parking = nil
	}
}
