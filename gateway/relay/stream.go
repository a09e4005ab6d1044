package relay

import (
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Stream is one call on its way through the relay. A Handler uses it only inside
// its callbacks and inside Parked.Resume. Its request headers are kept until the
// response starts: what Done needs of them, the Handler copies before.
type Stream struct {
	// Value is the Handler's own. It is nil when Headers is called.
	Value any

	sh       *shard
	peer     *Peer
	client   downstream // has down
	down, up half       // the client's side and the upstream's
	phase    phase
	gen      uint32 // counts the calls that this Stream has served
	parking  *parking

	head      *hpack.List // request headers, until the response starts
	edits     []edit      // of head
	method    string
	path      string
	authority string
	repeated  string
	grpc      bool // content-type is application/grpc
	proto     bool // of protobuf
	announced bool // the Handler knows of it: Done is due
	lingers   bool // it is answered whole, and the client still sends
	reporting bool // it is in shard.ended
	started   bool // response headers came from the upstream
	replay    bool // the request is still whole: up.queue has all of it
	accepted  bool // the upstream has given credit for more of the request
	doubts    bool // REFUSED_STREAM of the upstream proves nothing
	alone     bool // the first message is to be the only one
	whole     bool // which has been delivered
	upstream  *Upstream
	next      *Stream     // in its pool's queue
	trailers  *hpack.List // to follow down.queue
	follow    *hpack.List // the request's trailers, to follow up.queue
	tap       Tap
	group     *Group
	ledger    *ledger  // of what is held for it; nil means not charged yet
	charges   *Group   // that the ledger is of; nil means it is its client's
	charged   int64    // to the ledger
	limit     *limiter // nil means nothing of it is counted
	headSize  int      // of head, as long as it counts for the connection and the shard
	inside    int      // bytes of buffers that local ends have for it
	held      int      // bytes in the queues and local ends, as the connection and the shard count them
	early     int      // bytes in up.queue for which the client already got its window back
	deadline  int64
	latest    int64 // that the deadline may be; 0 means any time
	messageBy int64 // when the first message has to be there
	readLimit int64 // of down.got, at which a stream that lingers is reset
	timer     timer
	began     time.Duration // since relay.epoch
	sentAt    int64         // when the request was last sent to an upstream, as shard.now
	result    Result
}

// phase is how far a stream is.
type phase uint8

const (
	free      phase = iota
	deciding        // inside a Handler callback
	reading         // waiting for the first message
	parked          // waiting for Resume
	queued          // waiting for an upstream connection
	forwarded       // frames go both ways
	answered        // only what the relay says itself is still to be sent
	over            // nothing more will be sent
)

// edit is a header that the Handler sets, or drops when its value is unset.
type edit struct {
	name, value string
	drop        bool
}

// Path returns the request's :path, byte for byte as it was sent.
func (s *Stream) Path() string { return s.path }

// Authority returns the request's :authority, or its Host when it has none, or else localhost.
func (s *Stream) Authority() string { return s.authority }

// Header returns the first value of a request header; name is in lower case. There are
// none any more when the response has started.
func (s *Stream) Header(name string) (string, bool) {
	if s.head == nil {
		return "", false
	}
	for i := range s.head.Fields {
		if f := &s.head.Fields[i]; f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// AppendHeader appends all values of a request header to b, as one list (RFC 9110 §5.3);
// name is in lower case.
func (s *Stream) AppendHeader(b []byte, name string) []byte {
	found := false
	for i := 0; s.head != nil && i < len(s.head.Fields); i++ {
		if f := &s.head.Fields[i]; f.Name == name {
			if found {
				b = append(b, ',')
			}
			b, found = append(b, f.Value...), true
		}
	}
	return b
}

// Contradicts reports whether a request header comes more than once, with different values.
func (s *Stream) Contradicts(name string) bool {
	first, found := "", false
	for i := range s.head.Fields {
		switch f := &s.head.Fields[i]; {
		case f.Name != name:
		case found && f.Value != first:
			return true
		default:
			first, found = f.Value, true
		}
	}
	return false
}

// Repeated returns the name of a request header of which there is more than one although gRPC takes one:
// grpc-encoding, grpc-timeout, te or content-type. It is "" where there is none.
func (s *Stream) Repeated() string { return s.repeated }

// Proto reports whether content-type is application/grpc or application/grpc+proto, and nothing more.
func (s *Stream) Proto() bool { return s.proto }

// SetHeader sends the upstream this value instead of what the client sent. The last
// word on a header counts.
func (s *Stream) SetHeader(name, value string) { s.edit(edit{name: name, value: value}) }

// DropHeader keeps a request header from the upstream.
func (s *Stream) DropHeader(name string) { s.edit(edit{name: name, drop: true}) }

func (s *Stream) edit(e edit) {
	if old := s.edited(e.name); old != nil {
		*old = e
	} else {
		if s.edits == nil {
			s.edits = s.sh.newEdits()
		}
		s.edits = append(s.edits, e)
	}
}

// SetPath sends the upstream another :path.
func (s *Stream) SetPath(path string) { s.SetHeader(":path", path) }

// Started is when the request's headers came, as in Result.
func (s *Stream) Started() time.Time { return s.result.Started }

// Forwarded says that the stream's headers were sent to an upstream.
func (s *Stream) Forwarded() bool { return s.result.Forwarded != 0 }

// Sent says that the stream's headers went to the upstream that it was forwarded to last, which may have begun to
// carry it out. It is for Explain.
func (s *Stream) Sent() bool { return s.phase == forwarded }

// ResetCode returns the google.rpc.Code of the reset by which the upstream ended the stream, while UpstreamReset is
// explained, or of the answer's HTTP status, while UpstreamNotGRPC is.
func (s *Stream) ResetCode() uint32 { return s.result.Code }

// Peer is whose connection the stream came by. It is not to be changed.
func (s *Stream) Peer() *Peer { return s.peer }

// Shard numbers the lock under which the Handler is called for this stream, from 0.
func (s *Stream) Shard() int { return s.sh.index }

// Timeout is what is left of the client's grpc-timeout when its headers came; a
// malformed one is reported as no time at all.
func (s *Stream) Timeout() (time.Duration, bool) {
	if s.head == nil {
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

// SetDeadline ends the stream with DeadlineExceeded after d, counted from its
// start, and tells the upstream what is left when it is forwarded.
func (s *Stream) SetDeadline(d time.Duration) {
	s.deadline = max(int64(s.began)+int64(min(d, maxTimeout)), 1)
	if s.latest != 0 {
		s.deadline = min(s.deadline, s.latest)
	}
	s.setTimer()
}

// Left is what is left of the time that SetDeadline gave; without a deadline, it is centuries.
func (s *Stream) Left() time.Duration {
	if s.deadline == 0 {
		return maxTimeout
	}
	return time.Duration(s.deadline - s.sh.now)
}

// DoubtRefusals declares that the upstream may send REFUSED_STREAM, or a GOAWAY below the stream, for a call that ran,
// as some proxies do when their server ends. Call it before Forward.
func (s *Stream) DoubtRefusals() { s.doubts = true }

// TapResponse lets t see the response body. Call it before Forward.
func (s *Stream) TapResponse(t Tap) { s.tap = t }

// ReadMessage asks for the first message: the Handler's Message will be called.
func (s *Stream) ReadMessage() {
	s.phase = reading
	s.messageBy = s.sh.now + int64(s.sh.relay.cfg.Timeouts.Setup)
	s.setTimer()
}

// ReadOnlyMessage is ReadMessage for a stream of which the client sends one message. Whatever follows that ends the
// stream with MessageFollowed: there are servers that decode it as a part of the message.
func (s *Stream) ReadOnlyMessage() {
	s.alone = true
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
		// The response is whole, but the client has not taken it in its time.
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
func (s *Stream) open(c client, p *Peer, id uint32, window int, head *hpack.List, end bool) {
	s.phase = deciding
	s.head, s.replay, s.headSize = head, true, head.Size()
	s.sh.buffered += int64(s.headSize)
	s.began, s.peer, s.client = time.Duration(s.sh.now), p, c
	s.down.join(c, id, window)
	s.down.state.heads += s.headSize
	s.down.gotEnd, s.up.queueEnd = end, end
}

// begin hands the stream to whoever decides it.
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
	s.result.Started = s.sh.relay.epoch.Add(s.began)
	s.callHeaders()
	if s.charged == 0 && !s.chargeClient() {
		return
	}
	if s.phase == reading && s.down.gotEnd {
		s.miss()
	}
}

// reset makes the stream ready to be used for another call.
func (s *Stream) reset() {
	sh := s.sh
	sh.wheel.clear(&s.timer)
	s.unpark()
	s.noReplay()
	s.account(-s.down.queue.len() - s.up.queue.len() - s.inside)
	s.down.queue.drop(&sh.buffers)
	s.up.queue.drop(&sh.buffers)
	s.release()
	s.unlimit()
	if s.head != nil {
		sh.freeList(s.head)
	}
	if s.trailers != nil {
		sh.freeList(s.trailers)
	}
	if s.follow != nil {
		sh.freeList(s.follow)
	}
	s.dropEdits()
	*s = Stream{
		sh: sh, gen: s.gen + 1, parking: s.parking,
		timer: timer{expired: s.timer.expired},
		down:  half{stream: s}, up: half{stream: s},
	}
}
