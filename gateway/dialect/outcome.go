package dialect

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/call"
)

// Outcome is the outcome of a call in its payload. It is meaningful only if the gRPC status is OK: capabilities
// report their own failures inside a message.
type Outcome uint8

// Outcomes.
const (
	OutcomeUnknown Outcome = iota // the RPC has no outcome, or the bytes are unreadable (compressed, malformed)
	OK                            // no error; a stream ended with its last message marked done
	ToolError                     // a message carries an error
	CutOff                        // the response ended too early: without done, or inside a message
)

var outcomeNames = [...]string{"unknown", "ok", "tool_error", "cut_off"}

func (o Outcome) String() string { return outcomeNames[o] }

// Scanner determines the outcome of a call from its response, in pieces of any size. It does not store the payload,
// and reads the bytes of length-delimited fields only for Watch. It is a relay.Tap.
//
// A Scanner may be reused; the zero value reports OutcomeUnknown until Reset.
type Scanner struct {
	shape shape

	headLen uint8 // received bytes of a prefix that is not complete
	inside  bool  // the prefix is complete, and its message is not
	packed  bool  // the message is compressed
	opaque  bool  // the message is unreadable: compressed or malformed

	seen, failed, unread, done bool // for all messages so far; done is for the last one

	left     uint32 // of the message; the start of its length while its prefix is not complete
	field    fieldReader
	mentions *Mentions // receives the payload; may be nil
}

// prefixSize is the length of the prefix of a gRPC message: a flag byte and the message's length, big-endian (gRPC
// over HTTP/2, "Length-Prefixed-Message").
const prefixSize = 5

// shape holds the field numbers of a response message's outcome.
type shape struct {
	errorField   uint8 // a string; 0 means there is no outcome
	doneField    uint8 // a bool; 0 means the response is a single message
	successField uint8 // a bool that is true on success; 0 means none
}

func shapeOf(m call.Method, d call.Dialect) shape {
	switch {
	case d == call.Legacy && m == call.Invoke:
		return shape{errorField: 3, successField: 2}
	case d != call.Doc && d != call.Live:
		return shape{}
	}
	switch m {
	case call.Invoke:
		return shape{errorField: 2}
	case call.StreamInvoke:
		return shape{errorField: 3, doneField: 2}
	case call.DownloadOutputArtifact:
		return shape{errorField: 5, doneField: 4}
	case call.UploadInputArtifact:
		if d == call.Live {
			return shape{errorField: 3} // 2 is size_bytes
		}
		return shape{errorField: 2}
	case call.Other, call.Healthcheck:
	}
	return shape{}
}

// Reset prepares s for the response to a call of m in the dialect d. It returns false if such a response has no
// outcome; s then needs no bytes.
func (s *Scanner) Reset(m call.Method, d call.Dialect) bool {
	*s = Scanner{shape: shapeOf(m, d)}
	return s.Reads()
}

// Reads reports whether the response has an outcome, as Reset found.
func (s *Scanner) Reads() bool { return s.shape.errorField != 0 }

// Watch passes the payload of the response to m. It must be called after Reset.
func (s *Scanner) Watch(m *Mentions) { s.mentions = m }

// Body processes the next bytes of the response.
func (s *Scanner) Body(p []byte) {
	if s.shape.errorField == 0 || s.piece(p) {
		return
	}
	for len(p) > 0 {
		if !s.inside {
			p = s.prefix(p)
			continue
		}
		n := min(uint64(s.left), uint64(len(p)))
		if !s.opaque && !s.field.read(p[:n], s.shape, s.mentions) {
			s.opaque = true
		}
		if s.packed {
			s.mentions.pack(p[:n], s.left == uint32(n))
		}
		p = p[n:]
		if s.left -= uint32(n); s.left == 0 {
			s.endMessage()
		}
	}
}

// piece processes p if it is exactly one uncompressed message with only a short payload, like most messages of a
// stream. It is a fast path of Body.
func (s *Scanner) piece(p []byte) bool {
	const payloadTag, short = 1<<3 | byte(protowire.BytesType), 1 << 14
	if s.inside || s.headLen > 0 || s.shape.successField != 0 || len(p) < prefixSize+3 || len(p) >= short ||
		p[0] != 0 || binary.BigEndian.Uint32(p[1:]) != uint32(len(p)-prefixSize) || p[prefixSize] != payloadTag {
		return false
	}
	payload, n := p[prefixSize+2:], int(p[prefixSize+1])
	if n >= 0x80 {
		if payload[0] >= 0x80 {
			return false
		}
		n = n&0x7f | int(payload[0])<<7
		payload = payload[1:]
	}
	if n != len(payload) {
		return false
	}
	if s.mentions != nil {
		s.mentions.see(payload, true)
	}
	s.seen, s.done = true, false
	return true
}

func (s *Scanner) prefix(p []byte) []byte {
	for i, c := range p {
		if s.headLen == 0 {
			s.packed = c != 0
		} else {
			s.left = s.left<<8 | uint32(c)
		}
		if s.headLen++; s.headLen < prefixSize {
			continue
		}
		s.headLen, s.inside, s.opaque, s.field = 0, true, s.packed, fieldReader{}
		if s.left == 0 {
			s.endMessage()
		}
		return p[i+1:]
	}
	return nil
}

func (s *Scanner) endMessage() {
	s.inside = false
	s.seen = true
	s.done = false
	if s.opaque || !s.field.complete() {
		s.unread = true
		return
	}
	if s.shape.successField != 0 {
		s.failed = s.failed || !s.field.success
	} else {
		s.failed = s.failed || s.field.hasError
	}
	s.done = s.field.done
}

// Outcome returns the outcome of the bytes so far, if no more follow.
func (s *Scanner) Outcome() Outcome {
	switch {
	case s.failed:
		return ToolError
	case s.unread || s.shape.errorField == 0:
		return OutcomeUnknown
	case s.inside || s.headLen > 0:
		return CutOff
	case s.shape.doneField != 0 && !s.done:
		return CutOff
	case !s.seen:
		return OutcomeUnknown
	}
	return OK
}

// fieldReader walks the fields of one message, in pieces.
type fieldReader struct {
	varint uint64           // low bits so far of the varint being read
	skip   uint32           // remaining bytes of the current value; a message is shorter than the maximum
	num    protowire.Number // current field
	depth  int16            // number of open groups
	shift  uint8            // bits of varint so far
	expect expectation
	bytes  bool // num is length-delimited

	hasError, done, success bool // last values of their fields
}

// expectation is the meaning of the next varint.
type expectation uint8

const (
	aTag expectation = iota
	aValue
	aLength
)

// maxDepth is the maximum nesting of groups, as in protobuf for Go.
const maxDepth = protowire.DefaultRecursionLimit

// read processes the message's next bytes. It returns false if they are not protobuf.
func (f *fieldReader) read(b []byte, sh shape, m *Mentions) bool {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(uint64(f.skip), uint64(len(b)))
			if f.skip -= uint32(n); m != nil && f.payload() {
				m.see(b[:n], f.skip == 0)
			}
			b = b[n:]
			continue
		}
		c := b[0]
		b = b[1:]
		if f.shift == 63 && c > 1 {
			return false // longer than ten bytes, or more than 64 bits
		}
		f.varint |= uint64(c&0x7f) << f.shift
		if c >= 0x80 {
			f.shift += 7
			continue
		}
		v := f.varint
		f.varint, f.shift = 0, 0
		if !f.take(v, sh) {
			return false
		}
	}
	return true
}

func (f *fieldReader) take(v uint64, sh shape) bool {
	expect := f.expect
	f.expect = aTag
	switch expect {
	case aTag:
		return f.tag(v)
	case aValue:
		switch {
		case f.depth > 0:
		case f.num == protowire.Number(sh.doneField):
			f.done = v != 0
		case f.num == protowire.Number(sh.successField):
			f.success = v != 0
		}
	case aLength:
		f.skip = uint32(min(v, math.MaxUint32))
		if f.depth == 0 && f.num == protowire.Number(sh.errorField) {
			f.hasError = v > 0
		}
	}
	return true
}

func (f *fieldReader) tag(v uint64) bool {
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber || num > protowire.MaxValidNumber && f.depth == 0 {
		return false
	}
	f.num, f.bytes = num, typ == protowire.BytesType
	switch typ {
	case protowire.VarintType:
		f.expect = aValue
	case protowire.BytesType:
		f.expect = aLength
	case protowire.Fixed32Type:
		f.skip = 4
	case protowire.Fixed64Type:
		f.skip = 8
	case protowire.StartGroupType:
		f.depth++
		return f.depth < maxDepth
	case protowire.EndGroupType:
		f.depth--
		return f.depth >= 0
	default:
		return false
	}
	return true
}

// payload reports whether the current value is the message's payload, field 1 of all scanned responses: the result, a
// part of it, or an artifact's id.
func (f *fieldReader) payload() bool { return f.num == 1 && f.depth == 0 && f.bytes }

// complete reports whether the message may end here.
func (f *fieldReader) complete() bool {
	return f.skip == 0 && f.shift == 0 && f.expect == aTag && f.depth == 0
}
