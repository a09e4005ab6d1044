package h2

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Config configures a session.
type Config struct {
	Client       bool
	StreamWindow int // initial receive window of a stream; default 65535
	ConnWindow   int // receive window of the connection; default 65535, the minimum
	MaxStreams   int // SETTINGS_MAX_CONCURRENT_STREAMS of a server; 0 announces none
}

// Events receives what the peer sends. Its methods run inside Feed and may call the session.
type Events interface {
	Headers(st *Stream, h Headers, end bool) error
	// Data may receive a DATA frame in parts; p is valid only during the call.
	Data(st *Stream, p []byte, end bool) error
	Reset(st *Stream, code uint32) error
}

// Session is an HTTP/2 connection without its socket: input goes to Feed, and output is appended to Out. It is not safe
// for concurrent use.
type Session struct {
	Out []byte // the owner sends it and truncates it to length 0

	cfg    Config
	events Events
	parser parser
	enc    *encoder
	dec    *decoder

	preface int // bytes of the client's preface still to be received
	nextID  uint32
	streams map[uint32]*Stream
	free    []*Stream
	sending fifo[*Stream] // streams with a body to send, in round-robin order

	window      int64 // bytes that may be sent on the connection
	peerInitial int64
	peerFrame   int
	peerStreams uint32
	settled     bool
	uncredited  int // DATA bytes received and not yet credited by WINDOW_UPDATE
	trailers    []int
}

// Stream is one call. The session reuses it after its end.
type Stream struct {
	ID    uint32
	Value any // for the owner's use

	body       Body
	off        int // bytes of the current message that have been sent
	window     int64
	uncredited int
	queued     bool
	localEnd   bool
	remoteEnd  bool
	gone       bool
}

// NewSession returns a session with its opening frames in Out.
func NewSession(cfg Config, events Events) *Session {
	if cfg.StreamWindow == 0 {
		cfg.StreamWindow = defaultWindow
	}
	cfg.ConnWindow = max(cfg.ConnWindow, defaultWindow)
	s := &Session{
		cfg: cfg, events: events, enc: newEncoder(), dec: newDecoder(), nextID: 1,
		streams: map[uint32]*Stream{}, window: defaultWindow, peerInitial: defaultWindow,
		peerFrame: minMaxFrame, peerStreams: 1<<32 - 1,
	}
	var settings []byte
	settings = appendSetting(settings, settingInitialWindow, uint32(cfg.StreamWindow))
	if cfg.Client {
		s.Out = append(s.Out, Preface...)
	} else {
		s.preface = len(Preface)
		if cfg.MaxStreams > 0 {
			settings = appendSetting(settings, settingMaxStreams, uint32(cfg.MaxStreams))
		}
	}
	s.Out = appendFrameHeader(s.Out, len(settings), frameSettings, 0, 0)
	s.Out = append(s.Out, settings...)
	if more := cfg.ConnWindow - defaultWindow; more > 0 {
		s.Out = appendUint32Frame(s.Out, frameWindowUpdate, 0, uint32(more))
	}
	return s
}

// Field declares a header field for blocks of this session.
func (s *Session) Field(name, value string) int { return s.enc.add(name, value) }

// Trailers declares the trailers of a server's streams.
func (s *Session) Trailers(fields ...int) { s.trailers = fields }

// Settled reports whether the peer's SETTINGS have been received, and how many streams they allow.
func (s *Session) Settled() (streams uint32, ok bool) { return s.peerStreams, s.settled }

// Streams returns the number of open streams.
func (s *Session) Streams() int { return len(s.streams) }

// Feed processes bytes from the peer. After an error, the session is unusable.
func (s *Session) Feed(p []byte) error {
	if s.preface > 0 {
		n := min(s.preface, len(p))
		want := Preface[len(Preface)-s.preface:]
		if !bytes.Equal(p[:n], []byte(want[:n])) {
			return fmt.Errorf("h2: preface %q", p[:n])
		}
		s.preface -= n
		p = p[n:]
	}
	return s.parser.feed(p, s)
}

// Open starts a client's stream: HEADERS, then the body. timeout is the value of grpc-timeout; "" sends none.
func (s *Session) Open(fields []int, timeout string, body Body) *Stream {
	st := s.newStream(s.nextID)
	s.nextID += 2
	at := len(s.Out)
	s.Out = s.enc.begin(append(s.Out, make([]byte, frameHeaderLen)...))
	for _, f := range fields {
		s.Out = s.enc.append(s.Out, f)
	}
	if timeout != "" {
		s.Out = s.enc.appendTimeout(s.Out, timeout)
	}
	s.closeHeaders(at, st.ID, 0)
	s.Send(st, body)
	return st
}

// Reply starts a server's response: HEADERS, the body, and the trailers at its end.
func (s *Session) Reply(st *Stream, fields []int, body Body) {
	s.block(st.ID, fields, 0)
	s.Send(st, body)
}

// ReplyTrailers sends a response of trailers only.
func (s *Session) ReplyTrailers(st *Stream, fields []int) {
	s.block(st.ID, fields, flagEndStream)
	s.endLocal(st)
}

// Cancel resets a stream.
func (s *Session) Cancel(st *Stream) {
	s.Out = appendUint32Frame(s.Out, frameReset, st.ID, codeCancel)
	s.drop(st)
}

func (s *Session) block(id uint32, fields []int, flags byte) {
	at := len(s.Out)
	s.Out = s.enc.begin(append(s.Out, make([]byte, frameHeaderLen)...))
	for _, f := range fields {
		s.Out = s.enc.append(s.Out, f)
	}
	s.closeHeaders(at, id, flags)
}

// closeHeaders writes the frame header of the block that starts at at.
func (s *Session) closeHeaders(at int, id uint32, flags byte) {
	appendFrameHeader(s.Out[:at], len(s.Out)-at-frameHeaderLen, frameHeaders, flagEndHeaders|flags, id)
}

func (s *Session) newStream(id uint32) *Stream {
	st := &Stream{}
	if n := len(s.free); n > 0 {
		st, s.free = s.free[n-1], s.free[:n-1]
	}
	*st = Stream{ID: id, window: s.peerInitial}
	s.streams[id] = st
	return st
}

// drop removes a stream. If the stream is queued for sending, it is reused later.
func (s *Session) drop(st *Stream) {
	if st.gone {
		return
	}
	st.gone = true
	delete(s.streams, st.ID)
	if !st.queued {
		s.free = append(s.free, st)
	}
}

func (s *Session) endLocal(st *Stream) {
	st.localEnd = true
	if st.remoteEnd {
		s.drop(st)
	}
}

// data, headers and control are called by the parser.

func (s *Session) data(id uint32, part []byte, size int, end bool) error {
	if s.uncredited += size; s.uncredited >= s.cfg.ConnWindow/2 {
		s.Out = appendUint32Frame(s.Out, frameWindowUpdate, 0, uint32(s.uncredited))
		s.uncredited = 0
	}
	st := s.streams[id]
	if st == nil {
		return nil // reset locally; the frames were already in flight
	}
	if st.uncredited += size; st.uncredited >= s.cfg.StreamWindow/2 && !end {
		s.Out = appendUint32Frame(s.Out, frameWindowUpdate, id, uint32(st.uncredited))
		st.uncredited = 0
	}
	if end {
		s.endRemote(st)
	}
	return s.events.Data(st, part, end)
}

func (s *Session) headers(id uint32, block []byte, end bool) error {
	h, err := s.dec.decode(block)
	if err != nil {
		return err
	}
	st := s.streams[id]
	if st == nil {
		if s.cfg.Client || id < s.nextID {
			return nil
		}
		s.nextID = id + 2
		st = s.newStream(id)
	}
	if end {
		s.endRemote(st)
	}
	return s.events.Headers(st, h, end)
}

// endRemote records that the peer has ended st. The stream may be reused as soon as the current event has been handled.
func (s *Session) endRemote(st *Stream) {
	st.remoteEnd = true
	if s.cfg.Client || st.localEnd {
		s.drop(st)
	}
}

func (s *Session) reset(id, code uint32) error {
	st := s.streams[id]
	if st == nil {
		return nil
	}
	s.drop(st)
	return s.events.Reset(st, code)
}

func (s *Session) control(kind, flags byte, id uint32, p []byte) error {
	switch kind {
	case frameSettings:
		if flags&flagAck != 0 {
			return nil
		}
		return s.settings(p)
	case framePing:
		if flags&flagAck == 0 {
			s.Out = appendFrameHeader(s.Out, len(p), framePing, flagAck, 0)
			s.Out = append(s.Out, p...)
		}
	case frameWindowUpdate:
		if len(p) < 4 {
			return errShortFrame
		}
		s.widen(id, int64(binary.BigEndian.Uint32(p)))
	case frameReset:
		if len(p) < 4 {
			return errShortFrame
		}
		return s.reset(id, binary.BigEndian.Uint32(p))
	case frameGoaway:
		if len(p) < 8 {
			return errShortFrame
		}
		return fmt.Errorf("h2: peer sent GOAWAY code %d %q", binary.BigEndian.Uint32(p[4:]), p[8:])
	case framePush:
		return fmt.Errorf("h2: PUSH_PROMISE")
	case framePriority:
	}
	return nil
}

func (s *Session) settings(p []byte) error {
	for ; len(p) >= 6; p = p[6:] {
		v := binary.BigEndian.Uint32(p[2:])
		switch binary.BigEndian.Uint16(p) {
		case settingHeaderTableSize:
			s.enc.setLimit(int(min(v, tableLimit)))
		case settingMaxStreams:
			s.peerStreams = v
		case settingMaxFrameSize:
			s.peerFrame = int(v)
		case settingInitialWindow:
			more := int64(v) - s.peerInitial
			s.peerInitial = int64(v)
			for id := range s.streams {
				s.widen(id, more)
			}
		}
	}
	s.settled = true
	s.Out = appendFrameHeader(s.Out, 0, frameSettings, flagAck, 0)
	return nil
}
