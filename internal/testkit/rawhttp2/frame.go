package rawhttp2

import (
	"encoding/binary"
	"fmt"
)

// Preface is the client preface (RFC 9113 §3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Frame types (RFC 9113 §6).
const (
	TypeData byte = iota
	TypeHeaders
	TypePriority
	TypeReset
	TypeSettings
	TypePushPromise
	TypePing
	TypeGoAway
	TypeWindowUpdate
	TypeContinuation
)

// Frame flags. Their meaning depends on the type.
const (
	EndStream  byte = 0x1
	Ack        byte = 0x1
	EndHeaders byte = 0x4
	Padded     byte = 0x8
	Prioritied byte = 0x20
)

// Error codes (RFC 9113 §7).
const (
	NoError          uint32 = 0x0
	ProtocolError    uint32 = 0x1
	InternalError    uint32 = 0x2
	FlowControlError uint32 = 0x3
	StreamClosed     uint32 = 0x5
	FrameSizeError   uint32 = 0x6
	RefusedStream    uint32 = 0x7
	Cancel           uint32 = 0x8
	CompressionError uint32 = 0x9
	EnhanceYourCalm  uint32 = 0xb
)

// Settings (RFC 9113 §6.5.2).
const (
	HeaderTableSize      uint16 = 0x1
	EnablePush           uint16 = 0x2
	MaxConcurrentStreams uint16 = 0x3
	InitialWindowSize    uint16 = 0x4
	MaxFrameSize         uint16 = 0x5
	MaxHeaderListSize    uint16 = 0x6
)

// Frame is one frame. Its length is that of the payload, whatever the type says.
type Frame struct {
	Type    byte
	Flags   byte
	Stream  uint32
	Payload []byte
}

// Append adds the frame's bytes to b.
func (f Frame) Append(b []byte) []byte {
	n := len(f.Payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), f.Type, f.Flags)
	b = binary.BigEndian.AppendUint32(b, f.Stream)
	return append(b, f.Payload...)
}

// Has reports whether all these flags are set.
func (f Frame) Has(flags byte) bool { return f.Flags&flags == flags }

// Code returns the error code of a RST_STREAM or GOAWAY.
func (f Frame) Code() uint32 {
	p := f.Payload
	if f.Type == TypeGoAway && len(p) >= 8 {
		p = p[4:]
	}
	if len(p) < 4 {
		return NoError
	}
	return binary.BigEndian.Uint32(p)
}

// String is short, for the output of tests.
func (f Frame) String() string {
	s := fmt.Sprintf("type %d flags %#x stream %d, %d bytes", f.Type, f.Flags, f.Stream, len(f.Payload))
	if f.Type == TypeReset || f.Type == TypeGoAway {
		s += fmt.Sprintf(", error %d", f.Code())
	}
	if f.Type == TypeGoAway && len(f.Payload) > 8 {
		s += fmt.Sprintf(" (%s)", f.Payload[8:])
	}
	return s
}

// Data returns a DATA frame.
func Data(stream uint32, end bool, p []byte) Frame {
	return Frame{Type: TypeData, Flags: flag(end, EndStream), Stream: stream, Payload: p}
}

// Headers returns a HEADERS frame with a whole header block.
func Headers(stream uint32, end bool, block []byte) Frame {
	return Frame{Type: TypeHeaders, Flags: EndHeaders | flag(end, EndStream), Stream: stream, Payload: block}
}

// Continuation returns a CONTINUATION frame.
func Continuation(stream uint32, last bool, block []byte) Frame {
	return Frame{Type: TypeContinuation, Flags: flag(last, EndHeaders), Stream: stream, Payload: block}
}

// Reset returns a RST_STREAM frame.
func Reset(stream, code uint32) Frame {
	return Frame{Type: TypeReset, Stream: stream, Payload: binary.BigEndian.AppendUint32(nil, code)}
}

// Setting is one entry of a SETTINGS frame.
type Setting struct {
	ID    uint16
	Value uint32
}

// Settings returns a SETTINGS frame.
func Settings(settings ...Setting) Frame {
	var p []byte
	for _, s := range settings {
		p = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(p, s.ID), s.Value)
	}
	return Frame{Type: TypeSettings, Payload: p}
}

// SettingsAck acknowledges the peer's SETTINGS.
func SettingsAck() Frame { return Frame{Type: TypeSettings, Flags: Ack} }

// Ping returns a PING frame.
func Ping(data uint64) Frame {
	return Frame{Type: TypePing, Payload: binary.BigEndian.AppendUint64(nil, data)}
}

// Pong acknowledges a PING.
func Pong(ping Frame) Frame { return Frame{Type: TypePing, Flags: Ack, Payload: ping.Payload} }

// Priority returns a PRIORITY frame.
func Priority(stream, dependency uint32) Frame {
	return Frame{Type: TypePriority, Stream: stream, Payload: append(binary.BigEndian.AppendUint32(nil, dependency),
		15)}
}

// WindowUpdate returns a WINDOW_UPDATE frame.
func WindowUpdate(stream, n uint32) Frame {
	return Frame{Type: TypeWindowUpdate, Stream: stream, Payload: binary.BigEndian.AppendUint32(nil, n)}
}

// GoAway returns a GOAWAY frame.
func GoAway(last, code uint32) Frame {
	p := binary.BigEndian.AppendUint32(nil, last)
	return Frame{Type: TypeGoAway, Payload: binary.BigEndian.AppendUint32(p, code)}
}

// Message returns a gRPC message with its prefix, for DATA.
func Message(p []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(p)))
	return append(b, p...)
}

func flag(set bool, f byte) byte {
	if set {
		return f
	}
	return 0
}
