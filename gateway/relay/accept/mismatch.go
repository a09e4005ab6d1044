package relay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	// mistakeEvery is how often a client of the wrong protocol is logged: anybody can be one.
	mistakeEvery = 10 * time.Second
	// mistakeTime bounds how long such a client is told, and mistakeRead what is read of it, in bytes.
	mistakeTime = time.Second
	mistakeRead = 64 << 10
	// speaksTLS is what a client of HTTP/2 in cleartext is told by a port that speaks TLS.
	speaksTLS = "this port speaks TLS: connect with TLS (capgate: --tls)"
	// handshakeRecord is the first byte of a TLS handshake (RFC 8446 §5.1).
	handshakeRecord = 0x16
)

// mistakes are connections that are closed for a reason of their clients, such as not speaking what the port does.
type mistakes struct {
	next   atomic.Int64 // when one may be logged again, Unix nanoseconds
	others atomic.Int64 // since one was logged
}

// tell logs one, now and then.
func (m *mistakes) tell(r *Relay, nc net.Conn, text string) {
	now, next := time.Now().UnixNano(), m.next.Load()
	if now < next || !m.next.CompareAndSwap(next, now+int64(mistakeEvery)) {
		m.others.Add(1)
		return
	}
	r.cfg.Log.Warn(text, "remote", nc.RemoteAddr().String(), "others", m.others.Swap(0))
}

// cleartextToTLS answers a client that did not begin with TLS, if it looks like HTTP.
func (r *Relay) cleartextToTLS(nc net.Conn, err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || !looksLikeHTTP(record.RecordHeader) {
		return
	}
	gated, ok := record.Conn.(*gated)
	if !ok {
		return
	}
	r.mistakes.tell(r, nc, "a client speaks HTTP in cleartext to the port that speaks TLS")
	_ = nc.SetDeadline(time.Now().Add(mistakeTime))
	if string(record.RecordHeader[:]) == preface[:len(record.RecordHeader)] {
		tellHTTP2(io.MultiReader(bytes.NewReader(gated.seen), nc), nc)
	} else {
		page := r.cfg.Cleartext
		_, _ = fmt.Fprintf(nc, "HTTP/1.1 400 Bad Request\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: "+
			"close\r\n\r\n%s", page.Type, len(page.Body), page.Body)
	}
	// A connection that is closed with something unread is reset, and the client may lose the answer.
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, nc, mistakeRead)
	}
}

// tellHTTP2 ends a connection of HTTP/2 with GOAWAY, in words. It waits for the first request, or a PING: many clients
// report what ends their requests, and connect again at once after a GOAWAY before the first one.
func tellHTTP2(in io.Reader, nc net.Conn) {
	_, err := nc.Write(appendFrameHeader(nil, 0, frameSettings, 0, 0))
	in = io.LimitReader(in, mistakeRead)
	if err == nil {
		_, err = io.CopyN(io.Discard, in, int64(len(preface)))
	}
	var f frameHeader
	for head := make([]byte, frameHeaderLen); err == nil && f.typ != frameHeaders && f.typ != framePing; {
		if _, err = io.ReadFull(in, head); err == nil {
			f = parseFrameHeader(head)
			_, err = io.CopyN(io.Discard, in, int64(f.length))
		}
	}
	_ = nc.SetWriteDeadline(time.Now().Add(mistakeTime)) // the time may be up without a request
	frame := appendFrameHeader(nil, 8+len(speaksTLS), frameGoAway, 0, 0)
	frame = appendUint32(frame, f.stream)
	frame = appendUint32(frame, uint32(errInadequateSecurity))
	_, _ = nc.Write(append(frame, speaksTLS...)) // it may be gone
}

// looksLikeHTTP knows the beginnings of HTTP/2's preface, and of requests.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case preface[:5], "GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO":
		return true
	}
	return false
}

// tlsToCleartext logs a client that begins with TLS where the port speaks cleartext.
func (r *Relay) tlsToCleartext(nc net.Conn, first []byte) {
	if len(first) > 0 && first[0] == handshakeRecord {
		r.mistakes.tell(r, nc, "a client speaks TLS to the port that speaks cleartext: the configuration has no tls, or "+
			"the client should not use it")
	}
}
