package relay

import (
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Stream is a call in the relay. A Handler may use it only inside its callbacks and inside Parked.Resume. Its request
// headers are kept until the response starts; the Handler must copy what Done needs of them.
type Stream struct {
	// Value belongs to the Handler. It is nil when Headers is called.
	Value any

	sh           *shard
	client       downstream // transport of down
	down, up     half       // the client's side and the upstream's
	parking      *parking   // nil until the stream is parked
	*requestHead            // nil after the response has started

	gen       uint32 // number of calls that this Stream has served
	phase     phase
	grpc      bool  // content-type is application/grpc
	announced bool  // the Handler was called, and Done is due
	lingers   bool  // the response is complete, and the client still sends
	reporting bool  // in shard.ended
	started   bool  // response headers were received from the upstream
	replay    bool  // the request is complete in up.queue
	whole     bool  // the only message was delivered
	headSize  int32 // bytes of head counted for the connection and the shard
	tap       Tap
	group     *Group
	payer     *Group   // pays for its memory; nil means the client's account
	limit     *limiter // nil means nothing is counted
	lasting   int32    // cost of a response that outlives its http.Handler; 0 means that it does not
	inside    int32    // bytes in buffers of local ends
	held      int32    // bytes in the queues and local ends, as counted for the connection and the shard
	charged   int32    // to the ledger; 0 means that the stream is not charged yet
	early     int32    // bytes in up.queue that were already replenished for the client
	unread    int32    // bytes that a lingering stream may receive before it is reset
	deadline  int64
	timer     timer
	began     time.Duration // start, since relay.epoch
	result    outcome
}

// outcome is the part of a Result that is known before the stream ends.
type outcome struct {
	Code      uint32
	Failure   Failure
	Upstream  bool
	BytesIn   int64
	BytesOut  int64
	Forwarded time.Duration
	FirstByte time.Duration
}

// phase is the state of a stream.
type phase uint8

const (
	free      phase = iota
	deciding        // inside a Handler callback
	reading         // waiting for the first message
	parked          // waiting for Resume
	queued          // waiting for an upstream connection
	forwarded       // frames are forwarded both ways
	answered        // only the relay's own response remains to be sent
	over            // nothing more will be sent
)

// SetPath sets the :path for the upstream.
func (s *Stream) SetPath(path string) { s.SetHeader(":path", path) }

// Started returns the time at which the request's headers arrived, as in Result.
func (s *Stream) Started() time.Time { return s.sh.relay.epoch.Add(s.began) }

// Forwarded reports whether the stream's headers were sent to an upstream.
func (s *Stream) Forwarded() bool { return s.result.Forwarded != 0 }

// Sent reports whether the stream's headers were sent to its last upstream, which may have started to process it. It
// is for Explain.
func (s *Stream) Sent() bool { return s.phase == forwarded }

// ResetCode returns the google.rpc.Code of the upstream's reset during Explain of UpstreamReset, or of the response's
// HTTP status during Explain of UpstreamNotGRPC.
func (s *Stream) ResetCode() uint32 { return s.result.Code }

// Peer returns the client of the stream's connection. It must not be changed.
func (s *Stream) Peer() *Peer { return s.client.remote() }

// Shard returns the index of the lock under which the Handler is called for this stream, from 0.
func (s *Stream) Shard() int { return s.sh.index }

// Timeout returns the client's grpc-timeout, less the time since its headers arrived. A malformed timeout is 0.
func (s *Stream) Timeout() (time.Duration, bool) {
	if s.requestHead == nil {
		return 0, false
	}
	for i := range s.head.Fields {
		if f := &s.head.Fields[i]; f.Tag&nameMask == nameTimeout {
			d, ok := parseTimeout(f.Value)
			if !ok {
				return 0, true
			}
			return d, true
		}
	}
	return 0, false
}

// SetDeadline ends the stream with DeadlineExceeded at d after its start. The upstream receives the remaining time
// when the stream is forwarded. SetDeadline must be called before the response starts.
func (s *Stream) SetDeadline(d time.Duration) {
	s.deadline = max(int64(s.began)+int64(min(d, maxTimeout)), 1)
	if s.requestHead != nil && s.latest != 0 {
		s.deadline = min(s.deadline, s.latest)
	}
	s.setTimer()
}

// Now returns the time at which the current turn of the shard began. Reading the clock costs more.
func (s *Stream) Now() time.Time { return s.sh.relay.epoch.Add(time.Duration(s.sh.now)) }

// Left returns the time until the deadline; centuries without a deadline.
func (s *Stream) Left() time.Duration {
	if s.deadline == 0 {
		return maxTimeout
	}
	return time.Duration(s.deadline - s.sh.now)
}

// DoubtRefusals declares that the upstream may send REFUSED_STREAM, or a GOAWAY below the stream, for a call that ran,
// as some proxies do when their server ends. It must be called before Forward.
func (s *Stream) DoubtRefusals() {
	if s.requestHead != nil {
		s.doubts = true
	}
}

// TapResponse passes the response body to t. It must be called before Forward.
func (s *Stream) TapResponse(t Tap) { s.tap = t }

// ReadMessage requests the first message. The Handler's Message will be called.
func (s *Stream) ReadMessage() {
	s.phase = reading
	s.messageBy = s.sh.now + int64(s.sh.relay.cfg.Timeouts.Setup)
	s.setTimer()
}

// ReadOnlyMessage is ReadMessage for a stream with a single message. Anything after it ends the stream with
// MessageFollowed, because some servers would decode it as a part of the message.
func (s *Stream) ReadOnlyMessage() {
	if s.requestHead != nil {
		s.alone = true
	}
	s.ReadMessage()
}

func (s *Stream) setTimer() {
	when := s.deadline
	if s.phase == reading && (when == 0 || s.messageBy < when) {
		when = s.messageBy
	}
	if when != 0 {
		s.sh.wheel.set(&s.timer, when)
	} else {
		s.sh.wheel.clear(&s.timer)
	}
}

func (s *Stream) expire() {
	switch {
	case s.lingers:
		s.stopReading()
	case s.phase == answered:
		// The response is complete, but the client has not read it in time.
		s.down.transport.cutShort(&s.down, errCancel)
		s.result.Code, s.result.Failure, s.result.Upstream = codeDeadlineExceeded, DeadlineExceeded, false
		s.finish()
	case s.deadline != 0 && s.sh.now >= s.deadline:
		s.fail(DeadlineExceeded)
	case s.phase == reading:
		c := s.client
		s.fail(MessageTimeout)
		c.messageTimedOut()
	}
}

// open attaches a new stream to its client's connection, or local end.
func (s *Stream) open(c client, id uint32, window int, head *hpack.List, end bool) {
	s.phase = deciding
	s.requestHead, s.replay, s.headSize = s.sh.newRequest(head), true, int32(head.Size())
	s.sh.buffered += int64(s.headSize)
	s.began, s.client = time.Duration(s.sh.now), c
	s.down.join(c, id, window)
	s.down.state.heads += head.Size()
	s.down.gotEnd, s.up.queueEnd = end, end
}

// begin passes the stream to the Handler or the http.Handler.
func (s *Stream) begin() {
	if !s.grpc {
		if seen := s.sh.relay.cfg.Web; seen != nil {
			if !s.callWeb(seen) {
				return
			}
		}
		if s.chargeClient() {
			s.serveWeb()
		}
		return
	}
	if s.method != "POST" {
		s.refuseHTTP("405")
		return
	}
	s.announced = true
	s.callHeaders()
	if s.charged == 0 && !s.chargeClient() {
		return
	}
	if s.phase == reading && s.down.gotEnd {
		s.miss()
	}
}

// reset prepares the stream for another call.
func (s *Stream) reset() {
	sh := s.sh
	sh.wheel.clear(&s.timer)
	s.unpark()
	s.noReplay()
	s.account(-s.down.queue.len() - s.up.queue.len() - int(s.inside))
	s.down.clearQueue()
	s.up.clearQueue()
	s.release()
	s.unlimit()
	s.dropHead()
	*s = Stream{
		sh: sh, gen: s.gen + 1, parking: s.parking,
		timer: timer{expired: s.timer.expired},
		down:  half{stream: s}, up: half{stream: s},
	}
}
