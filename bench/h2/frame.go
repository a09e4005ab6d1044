package h2

import "encoding/binary"

// Preface is the start of a client's connection (RFC 9113 §3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Frame types (RFC 9113 §6).
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoaway       = 7
	frameWindowUpdate = 8
	frameContinuation = 9
)

// Frame flags.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings that the package sends or obeys (RFC 9113 §6.5.2).
const (
	settingHeaderTableSize = 1
	settingMaxStreams      = 3
	settingInitialWindow   = 4
	settingMaxFrameSize    = 5
)

const (
	frameHeaderLen = 9
	minMaxFrame    = 16384 // bytes of payload that every peer must accept
	defaultWindow  = 65535 // bytes, before any SETTINGS or WINDOW_UPDATE
	codeCancel     = 8     // RST_STREAM CANCEL
)

func appendFrameHeader(b []byte, size int, kind, flags byte, stream uint32) []byte {
	return append(b, byte(size>>16), byte(size>>8), byte(size), kind, flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

func appendUint32Frame(b []byte, kind byte, stream, value uint32) []byte {
	b = appendFrameHeader(b, 4, kind, 0, stream)
	return binary.BigEndian.AppendUint32(b, value)
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	b = binary.BigEndian.AppendUint16(b, id)
	return binary.BigEndian.AppendUint32(b, value)
}
