package relay

import (
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// headers processes a header block on an open stream: response headers, or trailers of either side.
func (s *Stream) headers(h *half, list *hpack.List, end, tooLong bool) {
	if h == &s.down {
		s.requestTrailers(list, end, tooLong)
		return
	}
	status, code, ok := checkResponse(list)
	roomy := s.client.relieve()
	if s.phase == over {
		return // its client has disconnected
	}
	switch {
	case tooLong || !ok || h.gotEnd, s.started && (status != "" || !end), !s.started && status == "":
		s.broken(h, errProtocol)
		return
	case !roomy:
		s.fail(MemoryExceeded) // headers have no flow control
		return
	case status != "" && status[0] == '1':
		if end || status == "101" {
			s.broken(h, errProtocol)
			return
		}
		h.state.guard.addControl(1)
		s.writeBlock(list, false)
		return
	}
	h.gotEnd = end
	if !s.started && !s.responseLength(list, status) || !h.lengthFits() {
		s.broken(h, errProtocol)
		return
	}
	foreign := s.grpc && code < 0 && (end || !s.started && !speaksGRPC(list, status))
	if (end || foreign) && !s.started && codeOfEnd(status, code) == codeUnavailable &&
		s.again(Answer{true, list.Fields}) {
		h.state.guard.subtract(perAnswer)
		s.dropUpstream(errCancel)
		s.unsent(ErrLost)
		return
	}
	if foreign {
		h.state.guard.subtract(perAnswer)
		s.result.Code = codeOfEnd(status, code)
		s.explain(UpstreamNotGRPC)
		return
	}
	if !s.started {
		s.responseStarts()
	}
	s.sendKept()
	if !end {
		s.writeBlock(list, false)
		return
	}
	s.result.Code, s.result.Upstream = codeOfEnd(status, code), true
	if s.down.queue.len() > 0 {
		s.down.follow(s.sh.keepScratch())
	} else {
		s.writeBlock(list, true)
	}
	s.responseEnds()
}

// speaksGRPC reports whether the headers of a response without a gRPC status are those of gRPC. Others come from
// intermediaries, such as load balancers.
func speaksGRPC(list *hpack.List, status string) bool {
	for i := range list.Fields {
		if f := &list.Fields[i]; f.Tag&nameMask == nameContentType {
			return status == "200" && f.Tag&tagGRPC != 0
		}
	}
	return false
}

// again reports whether a stream that its upstream failed starts again.
func (s *Stream) again(a Answer) bool {
	return s.announced && s.phase == forwarded && !s.started && s.replay && s.callAgain(a)
}

// requestTrailers ends the request. gRPC has no request trailers, so they are dropped. The http.Handler receives those
// of other requests.
func (s *Stream) requestTrailers(list *hpack.List, end, tooLong bool) {
	h := &s.down
	for i := range list.Fields {
		if list.Fields[i].Tag&(tagBad|tagPseudo) != 0 {
			end = false
		}
	}
	if h.gotEnd {
		s.broken(h, errStreamClosed)
		return
	}
	if !end || tooLong {
		s.broken(h, errProtocol)
		return
	}
	if s.grpc || s.phase == answered {
		s.receive(h, nil, 0, 0, true)
		return
	}
	if h.gotEnd = true; !h.lengthFits() {
		s.broken(h, errProtocol)
		return
	}
	list = s.sh.keepScratch()
	s.up.follow(list)
	s.headSize += int32(list.Size())
	s.down.state.heads += list.Size()
	s.sh.buffered += int64(list.Size())
	if !s.recount() {
		s.fail(AccountExceeded)
		return
	}
	s.pump(&s.up)
}

// writeFollow ends the request with its trailers.
func (s *Stream) writeFollow() {
	w := s.up.transport.beginBlock()
	list := s.up.queue.trailers
	for i := range list.Fields {
		if f := &list.Fields[i]; f.Tag&tagHidden == 0 {
			w.field(f)
		}
	}
	w.end(&s.up, true)
}

// responseStarts drops what was kept for a restart of the request, and notifies the Handler.
func (s *Stream) responseStarts() {
	s.started = true
	s.noReplay()
	s.forgetHead()
	s.result.FirstByte = time.Duration(s.sh.now) - s.began
	s.result.Code, s.result.Upstream = codeUnknown, true
	s.dropHead()
	if s.announced {
		s.callStarted()
	}
}

// forgetHead removes the request's headers from the accounts.
func (s *Stream) forgetHead() {
	if s.headSize == 0 {
		return
	}
	s.down.state.heads -= int(s.headSize)
	s.sh.buffered -= int64(s.headSize)
	s.headSize = 0
	s.recount()
}

// responseEnds detaches the upstream at the end of its response. The client may not have read all of it yet.
func (s *Stream) responseEnds() {
	s.up.state.guard.subtract(perAnswer)
	s.dropUpstream(errCancel)
	s.phase = answered
	s.checkDone()
}

func (s *Stream) writeBlock(list *hpack.List, end bool) {
	w := s.down.transport.beginBlock()
	for i := range list.Fields {
		w.field(&list.Fields[i])
	}
	w.end(&s.down, end)
}

// checkDone ends the stream when its whole response was sent.
func (s *Stream) checkDone() {
	if s.phase == over || s.lingers || !s.down.sentEnd {
		return
	}
	if s.down.transport != nil {
		s.down.state.guard.subtract(perAnswer)
	}
	s.dropUpstream(errCancel)
	if !s.down.gotEnd && s.down.transport != nil {
		s.linger()
		return
	}
	s.finish()
}

// dropUpstream detaches the upstream, and resets the stream there if it is still open.
func (s *Stream) dropUpstream(code errCode) {
	switch s.phase {
	case queued:
		s.sh.poolOf(s.upstream).remove(s)
	case forwarded:
		if t := s.up.transport; t != nil {
			if !s.up.sentEnd || !s.up.gotEnd {
				t.cutShort(&s.up, code)
			}
			s.up.detach()
		}
	}
}

// finish ends a stream: nothing more will be sent. It is reported and recycled at the end of the turn.
func (s *Stream) finish() {
	if s.phase == over {
		return
	}
	s.phase = over
	s.report() // first, whatever fails afterwards
	s.forgetHead()
	s.down.state.held -= int(s.held)
	s.down.detach()
	s.up.detach()
	s.sh.wheel.clear(&s.timer)
}

// canceled handles the client's RST_STREAM.
func (s *Stream) canceled(code errCode) {
	if s.lingers {
		s.finish()
		return
	}
	s.dropUpstream(code)
	s.result.Code, s.result.Failure, s.result.Upstream = codeCanceled, ClientGone, false
	s.finish()
}

// refusedWithin is the default of Forwarding.RefusedWithin.
const refusedWithin = 100 * time.Millisecond

// provesUnsent reports whether a REFUSED_STREAM now means that the upstream did not process the stream (RFC 9113
// §8.7): there is no evidence that it did.
func (s *Stream) provesUnsent() bool {
	within := int64(s.sh.relay.cfg.Forwarding.RefusedWithin)
	return !s.started && !s.accepted && !s.doubts && s.sh.now-s.sentAt <= within
}

// disowned handles a GOAWAY of the upstream with a last stream below this one, which says that the upstream did not
// process the stream (RFC 9113 §6.8). It proves nothing about a stream that the upstream has accepted, or if refusals
// are doubted: such a stream is canceled, and counts as lost with its connection.
func (s *Stream) disowned(why error) {
	if !s.started && (s.accepted || s.doubts) {
		s.up.transport.cutShort(&s.up, errCancel)
		s.lost(&s.up, UpstreamLost)
		return
	}
	s.unsent(why)
}

// refused handles the upstream's RST_STREAM.
func (s *Stream) refused(code errCode) {
	s.up.detach()
	if code == errRefusedStream && s.provesUnsent() && (s.replay || s.grpc) {
		s.unsent(ErrRefused)
		return
	}
	if code == errCancel && s.deadline != 0 &&
		s.sh.now >= s.deadline-int64(s.sh.relay.cfg.Forwarding.DeadlineMargin)-tick {
		s.failWith(DeadlineExceeded) // servers of grpc-go end calls after their deadline this way
		return
	}
	if s.again(Answer{}) {
		s.unsent(ErrLost)
		return
	}
	s.result.Code, s.result.Upstream = code.grpcCode(), true
	if s.grpc {
		s.explain(UpstreamReset)
		return
	}
	s.down.transport.cutShort(&s.down, code)
	s.finish()
}

// explain ends a stream with a status of the code in result, because its upstream has reset it, or has sent a response
// that is not gRPC. Some clients take a reset for a failed connection, by the text of their error, and repeat the
// call.
func (s *Stream) explain(f Failure) {
	code := s.result.Code
	s.failWith(f)
	s.result.Code, s.result.Upstream = code, true
}

// broken ends a stream because one of its peers violated the protocol on it.
func (s *Stream) broken(h *half, code errCode) {
	books := h.state
	h.transport.cutShort(h, code)
	if s.lingers {
		s.finish()
		return
	}
	if h == &s.up {
		h.detach()
		s.failWith(UpstreamProtocol)
		return
	}
	books.guard.addReset()
	s.dropUpstream(errCancel)
	s.result.Code, s.result.Failure = codeInternal, ClientProtocol
	s.finish()
}

// lost handles the end of one of the stream's connections.
func (s *Stream) lost(h *half, f Failure) {
	if s.lingers {
		s.finish()
		return
	}
	if h == &s.up {
		h.detach()
		if s.again(Answer{}) {
			s.unsent(ErrLost)
			return
		}
		s.failWith(f)
		return
	}
	s.dropUpstream(errCancel)
	s.result.Code, s.result.Failure, s.result.Upstream = codeCanceled, f, false
	s.finish()
}
