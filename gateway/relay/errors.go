package relay

import (
	"errors"
	"fmt"
)

// errCode is an HTTP/2 error code (RFC 9113 §7).
type errCode uint32

const (
	errNone               errCode = 0x0
	errProtocol           errCode = 0x1
	errInternal           errCode = 0x2
	errFlowControl        errCode = 0x3
	errSettingsTimeout    errCode = 0x4
	errStreamClosed       errCode = 0x5
	errFrameSize          errCode = 0x6
	errRefusedStream      errCode = 0x7
	errCancel             errCode = 0x8
	errCompression        errCode = 0x9
	errEnhanceYourCalm    errCode = 0xb
	errInadequateSecurity errCode = 0xc
)

// connError is an error that ends a connection with a GOAWAY of its code.
type connError struct {
	code errCode
	why  string
}

func (e *connError) Error() string { return fmt.Sprintf("http2 error %d: %s", e.code, e.why) }

// Errors for Handler.Unsent.
var (
	ErrRefused   = errors.New("upstream refused the stream")
	ErrGoAway    = errors.New("upstream is going away")
	ErrQueueFull = errors.New("too many streams are waiting for the upstream")
	ErrClosed    = errors.New("upstream is closed")
	errPanicked  = errors.New("the gateway failed while it connected")
	// ErrLost is the error of a failed stream for which Handler.Again returned true.
	ErrLost = errors.New("upstream failed a stream that it may have started")
)

var (
	errNotReading  = errors.New("peer does not read its responses")
	errPingTimeout = errors.New("peer does not answer a PING")
	errNoH2        = errors.New("peer did not negotiate h2 by ALPN")
	errIdle        = errors.New("idle")
	errSlow        = errors.New("preface, frame or header block took too long")
)

// grpcCode returns the gRPC status for a reset with this code (gRPC over HTTP/2, "HTTP2 Transport Mapping"), for
// records only.
func (e errCode) grpcCode() uint32 {
	switch e {
	case errRefusedStream:
		return codeUnavailable
	case errCancel:
		return codeCanceled
	case errEnhanceYourCalm:
		return codeResourceExhausted
	case errInadequateSecurity:
		return codePermissionDenied
	default:
		return codeInternal
	}
}

// gRPC codes that the relay uses (google.rpc.Code).
const (
	codeOK                = 0
	codeCanceled          = 1
	codeUnknown           = 2
	codeDeadlineExceeded  = 4
	codePermissionDenied  = 7
	codeResourceExhausted = 8
	codeUnimplemented     = 12
	codeInternal          = 13
	codeUnavailable       = 14
	codeUnauthenticated   = 16
)
