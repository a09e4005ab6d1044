package relay

import (
	"encoding/binary"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// Frame types (RFC 9113 §6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameRSTStream    = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Frame flags.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings (RFC 9113 §6.5.2).
const (
	settingHeaderTableSize   = 0x1
	settingEnablePush        = 0x2
	settingMaxStreams        = 0x3
	settingInitialWindow     = 0x4
	settingMaxFrame          = 0x5
	settingMaxHeaderListSize = 0x6
)

const (
	frameHeaderLen = 9
	maxFrame       = 16 << 10  // maximum payload that we accept and send: the protocol's initial value
	initialWindow  = 65535     // RFC 9113 §6.9.2
	maxWindow      = 1<<31 - 1 // RFC 9113 §6.9.1
	maxStreamID    = 1<<31 - 1
)

const preface = accept.Preface

// frameHeader is the nine-byte header of a frame.
type frameHeader struct {
	length int
	typ    byte
	flags  byte
	stream uint32
}

func parseFrameHeader(b []byte) frameHeader {
	_ = b[8]
	return frameHeader{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		typ:    b[3],
		flags:  b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & maxStreamID,
	}
}

func putFrameHeader(b []byte, length int, typ, flags byte, stream uint32) {
	_ = b[8]
	b[0], b[1], b[2] = byte(length>>16), byte(length>>8), byte(length)
	b[3], b[4] = typ, flags
	binary.BigEndian.PutUint32(b[5:], stream)
}

func appendFrameHeader(b []byte, length int, typ, flags byte, stream uint32) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), typ, flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

func appendUint32(b []byte, v uint32) []byte {
	return append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	return appendUint32(append(b, byte(id>>8), byte(id)), value)
}
