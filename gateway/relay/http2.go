package relay

import (
	"io"
	"net"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// http2 serves the HTTP/2 connections of the accept.Server.
type http2 struct{ relay *Relay }

var _ accept.HTTP2 = http2{}

// NewConn implements accept.HTTP2.
func (h http2) NewConn(nc net.Conn, first []byte, p *Peer) (serve func()) {
	return h.relay.shard().newLink(nc, nil, first, p)
}

const (
	// tlsRequired is the text of a GOAWAY.
	tlsRequired = "this port speaks TLS: connect with TLS (capgate: --tls)"
	// rejectTimeout is the timeout for writing a GOAWAY.
	rejectTimeout = time.Second
)

// RejectCleartext implements accept.HTTP2 with a GOAWAY that has an explanation. It waits for the first request, or a
// PING: many clients report the error that ends their requests, but reconnect at once after a GOAWAY before the first
// request.
func (h http2) RejectCleartext(nc net.Conn, in io.Reader) {
	_, err := nc.Write(appendFrameHeader(nil, 0, frameSettings, 0, 0))
	if err == nil {
		_, err = io.CopyN(io.Discard, in, int64(len(accept.Preface)))
	}
	var f frameHeader
	for head := make([]byte, frameHeaderLen); err == nil && f.typ != frameHeaders && f.typ != framePing; {
		if _, err = io.ReadFull(in, head); err == nil {
			f = parseFrameHeader(head)
			_, err = io.CopyN(io.Discard, in, int64(f.length))
		}
	}
	_ = nc.SetWriteDeadline(time.Now().Add(rejectTimeout)) // the deadline may have passed without a request
	frame := appendFrameHeader(nil, 8+len(tlsRequired), frameGoAway, 0, 0)
	frame = appendUint32(frame, f.stream)
	frame = appendUint32(frame, uint32(errInadequateSecurity))
	_, _ = nc.Write(append(frame, tlsRequired...)) // the client may have disconnected
}
