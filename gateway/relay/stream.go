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

	sh       *shard
	peer     *Peer
	client   downstream // transport of down
	down, up half       // the client's side and the upstream's
	phase    phase
	gen      uint32 // number of calls that this Stream has served
	parking  *parking

	head      *hpack.List // request headers, until the response starts
	names     nameSet     // of head, when the Handler reads it; 0 means not computed
	edits     []edit      // changes to head
	edited    nameSet     // names of edits
	method    string
	path      string
	authority string
	repeated  string
	grpc      bool // content-type is application/grpc
	proto     bool // content-type is application/grpc or application/grpc+proto
	announced bool // the Handler was called, and Done is due
	lingers   bool // the response is complete, and the client still sends
	reporting bool // in shard.ended
	started   bool // response headers were received from the upstream
	replay    bool // the request is complete in up.queue
	accepted  bool // the upstream has replenished the window of the request
	doubts    bool // REFUSED_STREAM from the upstream does not prove that the call did not start
	alone     bool // only one message is allowed
	whole     bool // the only message was delivered
	upstream  *Upstream
	next      *Stream     // in its pool's queue
	trailers  *hpack.List // follow down.queue
	follow    *hpack.List // trailers of the request, which follow up.queue
	tap       Tap
	group     *Group
	ledger    *ledger  // of its held bytes; nil means not charged yet
	charges   *Group   // group of the ledger; nil means the client's
	charged   int64    // to the ledger
	limit     *limiter // nil means nothing is counted
	headSize  int      // bytes of head counted for the connection and the shard
	inside    int      // bytes in buffers of local ends
	held      int      // bytes in the queues and local ends, as counted for the connection and the shard
	early     int      // bytes in up.queue that were already replenished for the client
	deadline  int64
	latest    int64 // latest deadline; 0 means none
	messageBy int64 // deadline of the first message
	readLimit int64 // of down.got, at which a lingering stream is reset
	timer     timer
	began     time.Duration // start, since relay.epoch
	sentAt    int64         // time of the last request to an upstream, on the shard's clock
	result    Result
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

// edit sets a header for the upstream, or drops it if its value is unset.
type edit struct {
	name, value string
	drop        bool
}

// Path returns the request's :path exactly as it was sent.
func (s *Stream) Path() string { return s.path }

// Authority returns the request's :authority, or its Host, or localhost if it has neither.
func (s *Stream) Authority() string { return s.authority }

// Header returns the first value of a request header. The name must be in lower case. After the response has started,
// there are no headers.
func (s *Stream) Header(name string) (string, bool) {
	if !s.mayHave(name) {
		return "", false
	}
	for i := range s.head.Fields {
		if f := &s.head.Fields[i]; f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// AppendHeader appends all values of a request header to b, as one list (RFC 9110 §5.3). The name must be in lower
// case.
func (s *Stream) AppendHeader(b []byte, name string) []byte {
	if !s.mayHave(name) {
		return b
	}
	found := false
	for i := range s.head.Fields {
		if f := &s.head.Fields[i]; f.Name == name {
			if found {
				b = append(b, ',')
			}
			b, found = append(b, f.Value...), true
		}
	}
	return b
}

// Contradicts reports whether a request header is present more than once, with different values.
func (s *Stream) Contradicts(name string) bool {
	if !s.mayHave(name) {
		return false
	}
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

// Repeated returns the name of a repeated request header that gRPC allows only once: grpc-encoding, grpc-timeout, te
// or content-type. It is empty if there is none.
func (s *Stream) Repeated() string { return s.repeated }

// Proto reports whether content-type is exactly application/grpc or application/grpc+proto.
func (s *Stream) Proto() bool { return s.proto }

// SetHeader sets a header for the upstream, in place of the client's. The last change of a header applies.
func (s *Stream) SetHeader(name, value string) { s.edit(edit{name: name, value: value}) }

// DropHeader removes a request header for the upstream.
func (s *Stream) DropHeader(name string) { s.edit(edit{name: name, drop: true}) }

func (s *Stream) edit(e edit) {
	if old := s.editOf(e.name); old != nil {
		*old = e
	} else {
		if s.edits == nil {
			s.edits = s.sh.newEdits()
		}
		s.edits = append(s.edits, e)
		s.edited |= setOf(e.name)
	}
}

// SetPath sets the :path for the upstream.
func (s *Stream) SetPath(path string) { s.SetHeader(":path", path) }

// Started returns the time at which the request's headers arrived, as in Result.
func (s *Stream) Started() time.Time { return s.result.Started }

// Forwarded reports whether the stream's headers were sent to an upstream.
func (s *Stream) Forwarded() bool { return s.result.Forwarded != 0 }

// Sent reports whether the stream's headers were sent to its last upstream, which may have started to process it. It
// is for Explain.
func (s *Stream) Sent() bool { return s.phase == forwarded }

// ResetCode returns the google.rpc.Code of the upstream's reset during Explain of UpstreamReset, or of the response's
// HTTP status during Explain of UpstreamNotGRPC.
func (s *Stream) ResetCode() uint32 { return s.result.Code }

// Peer returns the client of the stream's connection. It must not be changed.
func (s *Stream) Peer() *Peer { return s.peer }

// Shard returns the index of the lock under which the Handler is called for this stream, from 0.
func (s *Stream) Shard() int { return s.sh.index }

// Timeout returns the client's grpc-timeout, less the time since its headers arrived. A malformed timeout is 0.
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

// SetDeadline ends the stream with DeadlineExceeded at d after its start. The upstream receives the remaining time
// when the stream is forwarded.
func (s *Stream) SetDeadline(d time.Duration) {
	s.deadline = max(int64(s.began)+int64(min(d, maxTimeout)), 1)
	if s.latest != 0 {
		s.deadline = min(s.deadline, s.latest)
	}
	s.setTimer()
}

// Left returns the time until the deadline; centuries without a deadline.
func (s *Stream) Left() time.Duration {
	if s.deadline == 0 {
		return maxTimeout
	}
	return time.Duration(s.deadline - s.sh.now)
}

// DoubtRefusals declares that the upstream may send REFUSED_STREAM, or a GOAWAY below the stream, for a call that ran,
// as some proxies do when their server ends. It must be called before Forward.
func (s *Stream) DoubtRefusals() { s.doubts = true }

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
func (s *Stream) open(c client, p *Peer, id uint32, window int, head *hpack.List, end bool) {
	s.phase = deciding
	s.head, s.replay, s.headSize = head, true, head.Size()
	s.sh.buffered += int64(s.headSize)
	s.began, s.peer, s.client = time.Duration(s.sh.now), p, c
	s.down.join(c, id, window)
	s.down.state.heads += s.headSize
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
	s.result.Started = s.sh.relay.epoch.Add(s.began)
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
