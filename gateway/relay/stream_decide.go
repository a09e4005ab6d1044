package relay

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Forward sends the stream to an upstream, at once or when a connection is available. If that fails, the Handler's
// Unsent is called later.
func (s *Stream) Forward(u *Upstream) {
	if u.cfg.Serve != nil {
		s.serve(u.cfg.Serve, true)
		return
	}
	s.sh.acting++
	s.phase, s.upstream = queued, u
	s.sh.poolOf(u).add(s)
	s.sh.acting--
}

// start starts a queued stream on an upstream connection, unless its deadline has passed: timers have the resolution
// of a tick.
func (s *Stream) start(c *conn) {
	if s.tooLate() {
		return
	}
	c.lastID = (c.lastID + 1) | 1 // 1, 3, 5, …
	if c.lastID == maxStreamID {  // the last id of a connection (RFC 9113 §5.1.1)
		c.pool.retire(c)
		c.draining = true
	}
	s.startOn(c, c.lastID, c.peerWindow)
}

// tooLate ends a stream that would start after its deadline.
func (s *Stream) tooLate() bool {
	if s.deadline == 0 || s.sh.now < s.deadline {
		return false
	}
	s.phase = deciding // it is in no queue
	s.fail(DeadlineExceeded)
	return true
}

// startOn sends the request to its upstream. window is the initial send window.
func (s *Stream) startOn(t transport, id uint32, window int) {
	s.phase = forwarded
	s.up.join(t, id, window)
	s.up.gotEnd, s.up.sentEnd = false, false
	s.accepted, s.sentAt = false, s.sh.now
	if s.result.Forwarded == 0 {
		s.result.Forwarded = max(time.Duration(s.sh.now)-s.began, 1)
	}
	if len(s.up.queue.bytes()) > s.sh.relay.cfg.Forwarding.MaxReplay {
		s.replay = false
	}
	s.writeRequest(t)
	s.pump(&s.up)
}

// writeRequest writes the request's headers for the upstream.
func (s *Stream) writeRequest(t transport) {
	w := t.beginBlock()
	for i := range s.head.Fields {
		f := &s.head.Fields[i]
		if f.Tag&tagHidden != 0 && s.grpc {
			continue
		}
		switch f.Tag & nameMask {
		case nameScheme:
			if s.upstream != nil { // otherwise there is no response in progress
				w.field(s.upstream.scheme(&s.sh.consts))
			}
			continue
		case nameTimeout:
			if s.deadline != 0 {
				continue
			}
		case nameGRPCStatus, nameGRPCMessage, nameGRPCDetails:
			continue // requests have no status; no server must take it for a response
		}
		if s.edited&setOfTag(f.Tag) == 0 {
			w.field(f)
		} else if e := s.editOf(f.Name); e == nil {
			w.field(f)
		} else if f.Tag&tagPseudo != 0 && !e.drop {
			w.text(e.name, e.value)
		}
	}
	if s.deadline != 0 {
		var buf [24]byte
		left := time.Duration(s.deadline-s.sh.now) - s.sh.relay.cfg.Forwarding.DeadlineMargin
		w.text("grpc-timeout", string(appendTimeout(buf[:0], left)))
	}
	for i := range s.edits {
		if e := &s.edits[i]; !e.drop && e.name[0] != ':' {
			w.text(e.name, e.value)
		}
	}
	w.end(&s.up, s.up.queueEnd && s.up.queue.len() == 0)
}

// unsent takes back a stream that did not start at its upstream.
func (s *Stream) unsent(err error) {
	s.up.detach()
	if !s.started && !s.replay {
		s.phase = deciding // nothing was carried out, but it cannot be sent elsewhere
	}
	if s.started || !s.replay {
		s.failWith(UpstreamLost)
		return
	}
	// The client's window was already replenished for what was sent.
	s.early += int32(s.up.queue.past())
	s.up.queue.rewind()
	s.phase = parked
	gen := s.gen
	s.sh.later(func() {
		if s.gen != gen || s.phase != parked {
			return
		}
		s.phase = deciding
		if !s.announced {
			s.fail(UpstreamLost)
			return
		}
		s.callUnsent(err)
	})
}

// Reply responds with one message and status OK, without an upstream.
func (s *Stream) Reply(msg []byte) {
	s.sh.acting++
	s.phase = answered
	w := s.down.transport.beginBlock()
	w.field(&s.sh.consts.status200)
	w.field(&s.sh.consts.contentType)
	w.end(&s.down, false)
	prefix := appendUint32([]byte{0}, uint32(len(msg)))
	s.down.enqueue(prefix, false)
	s.down.enqueue(msg, false)
	n := s.down.queue.len()
	s.result.Code, s.result.BytesOut = codeOK, int64(n)
	list := s.sh.newList()
	list.Fields = append(list.Fields, s.sh.consts.grpcStatus[codeOK])
	s.down.follow(list)
	s.buffered(n)
	s.pump(&s.down)
	s.sh.acting--
}

// Refuse responds with a status only.
func (s *Stream) Refuse(st Status) {
	s.sh.acting++
	s.refuse(st)
	s.sh.acting--
}

func (s *Stream) refuse(st Status) {
	s.dropUpstream(errCancel)
	s.result.Code, s.result.Upstream = st.Code, false
	s.phase = answered
	if s.down.transport == nil {
		return
	}
	s.account(-s.down.queue.len())
	s.down.dropQueue()
	s.recount()
	s.writeStatus(st)
	s.checkDone()
}

// fail ends a stream because of a failure.
func (s *Stream) fail(f Failure) {
	if s.phase == over || s.phase == answered {
		return
	}
	s.result.Failure = f
	if s.grpc {
		s.Refuse(s.callExplain(f))
		return
	}
	s.dropUpstream(errCancel)
	if s.started {
		s.down.transport.cutShort(&s.down, errInternal)
		s.finish()
		return
	}
	switch s.phase = answered; f {
	case AccountExceeded:
		s.refusePage("429", s.sh.relay.cfg.Responses.Pages.TooManyRequests)
		return
	case Panicked:
		s.refuseHTTP("500")
		return
	}
	s.refuseHTTP("503")
}

// failWith is fail, but delivers the data received from the upstream first.
func (s *Stream) failWith(f Failure) {
	if s.grpc && s.started && s.down.queue.len() > 0 && s.phase == forwarded {
		st := s.callExplain(f)
		s.result.Failure, s.result.Code, s.result.Upstream = f, st.Code, false
		s.dropUpstream(errCancel)
		s.phase = answered
		list := s.sh.newList()
		appendStatus(list, &s.sh.consts, st)
		s.down.follow(list)
		s.pump(&s.down)
		return
	}
	s.fail(f)
}

// refuseHTTP rejects a request before it is treated as gRPC.
func (s *Stream) refuseHTTP(status string) {
	s.phase = answered
	w := s.down.transport.beginBlock()
	w.text(":status", status)
	w.end(&s.down, true)
	s.checkDone()
}

// refuseTooLong rejects a request whose header list is too long.
func (s *Stream) refuseTooLong() { s.refusePage("431", s.sh.relay.cfg.Responses.Pages.HeadersTooLarge) }

// comeBackAfter is the value of Retry-After, in seconds, for requests without room.
const comeBackAfter = "1"

// refusePage rejects a request with a page, if there is one.
func (s *Stream) refusePage(status string, page Page) {
	if len(page.Body) == 0 || s.requestHead != nil && s.method == "HEAD" {
		s.refuseHTTP(status)
		return
	}
	s.phase = answered
	w := s.down.transport.beginBlock()
	w.text(":status", status)
	w.text("content-type", page.Type)
	w.text("content-length", strconv.Itoa(len(page.Body)))
	if status == "429" {
		w.text("retry-after", comeBackAfter)
	}
	w.end(&s.down, false)
	s.account(-s.down.queue.len())
	s.down.dropQueue()
	s.down.enqueue(page.Body, false)
	s.down.queueEnd = true
	s.buffered(len(page.Body))
	s.pump(&s.down)
}

// writeStatus ends the response with a status: as trailers, or as the whole response if it has not started.
func (s *Stream) writeStatus(st Status) {
	list := s.sh.newList()
	if !s.started {
		list.Fields = append(list.Fields, s.sh.consts.status200, s.sh.consts.contentType)
	}
	appendStatus(list, &s.sh.consts, st)
	s.writeBlock(list, true)
	s.sh.freeList(list)
}

// Trailer that prevents gRPC clients from retrying by themselves (gRFC A6).
const (
	pushback = "grpc-retry-pushback-ms"
	never    = "-1"
)

func appendStatus(list *hpack.List, consts *constFields, st Status) {
	code := st.Code
	if code >= uint32(len(consts.grpcStatus)) {
		code = codeUnknown
	}
	list.Fields = append(list.Fields, consts.grpcStatus[code])
	if st.Message != "" {
		list.Append("grpc-message", percentEncode(st.Message), nameGRPCMessage)
	}
	if len(st.Details) > 0 {
		list.Append("grpc-status-details-bin", base64.RawStdEncoding.EncodeToString(st.Details), nameGRPCDetails)
	}
	if st.Challenge != "" {
		list.Append("www-authenticate", st.Challenge, 0)
	}
	if st.NoRetry {
		list.Append(pushback, never, 0)
	}
}

// percentEncode encodes a message for grpc-message (gRPC over HTTP/2, "Responses").
func percentEncode(msg string) string {
	const hex = "0123456789ABCDEF"
	var out []byte
	for i := range len(msg) {
		if b := msg[i]; b >= ' ' && b <= '~' && b != '%' && !(b == ' ' && (i == 0 || i == len(msg)-1)) {
			out = append(out, b)
		} else {
			out = append(out, '%', hex[b>>4], hex[b&15])
		}
	}
	return string(out)
}
