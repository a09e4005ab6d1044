package relay

import "sync/atomic"

// Parked is a stream whose decision is still to come.
type Parked struct {
	in     *parking // not read from the stream: it may be another call's by now
	ticket uint64
}

// parking is where a stream is parked. It is an event, as whoever resumes a stream has not its shard's lock.
type parking struct {
	event  event
	sh     *shard        // the stream's; not read from that, which may be reset while Resume runs
	stream *Stream       // under the shard's lock
	resume func(*Stream) // by whoever has taken the ticket, until act

	// ticket is that of the Parked that may still resume the stream, or claimed, or 0.
	ticket atomic.Uint64
	issued uint64 // tickets so far; under the shard's lock
}

// claimed is instead of a ticket from Resume to act.
const claimed = ^uint64(0)

func newParking(s *Stream) *parking {
	p := &parking{sh: s.sh, stream: s}
	p.event.of = p
	return p
}

// Park puts the stream off: the decision will come by Resume, from any goroutine.
func (s *Stream) Park() Parked {
	s.phase = parked
	p := s.parking
	p.issued++
	p.ticket.Store(p.issued)
	return Parked{p, p.issued}
}

// Resume calls f once: with the stream, which f must Forward, Reply, Refuse or Serve, Park again, or ReadMessage if
// that was not done before; or with nil when the stream has ended meanwhile, or was resumed already. f may run after
// Resume has returned, on the goroutine that has the stream's shard, with that locked: f must not block.
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
		s.readHeld() // the message may have come meanwhile
	}
}

// unpark makes sure that no Parked resumes the stream any more. One that is about to do so keeps its parking.
func (s *Stream) unpark() {
	p := s.parking
	if t := p.ticket.Load(); t != 0 && (t == claimed || !p.ticket.CompareAndSwap(t, 0)) {
		s.parking = newParking(s)
	}
}
