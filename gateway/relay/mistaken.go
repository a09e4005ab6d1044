package relay

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

const (
	// mistakeEvery is how often a client of the wrong protocol is logged: anybody can be one.
	mistakeEvery = 10 * time.Second
	// mistakeWrite bounds how long such a client is told.
	mistakeWrite = time.Second
	// handshakeRecord is the first byte of a TLS handshake (RFC 8446 §5.1).
	handshakeRecord = 0x16
)

// cleartextAnswer is what a client of HTTP gets that does not speak TLS at a port that does. A client of HTTP/2 shows
// at least that it is HTTP/1.1.
const cleartextAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 61\r\nConnection: close\r\n\r\n" +
	"this port speaks TLS: ask it over https, or gRPC with --tls.\n"

// mistakes are clients that do not speak what the port does.
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
func (r *Relay) cleartextToTLS(err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || record.Conn == nil || !looksLikeHTTP(record.RecordHeader) {
		return
	}
	r.mistakes.tell(r, record.Conn, "a client speaks HTTP in cleartext to the port that speaks TLS")
	_ = record.Conn.SetDeadline(time.Now().Add(mistakeWrite))
	_, _ = record.Conn.Write([]byte(cleartextAnswer)) // it may be gone
}

// looksLikeHTTP knows the beginnings of HTTP/2's preface, and of requests.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case "PRI *", "GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO":
		return true
	}
	return false
}

// tlsToCleartext logs a client that begins with TLS where the port speaks cleartext.
func (r *Relay) tlsToCleartext(nc net.Conn, first []byte) {
	if len(first) > 0 && first[0] == handshakeRecord {
		r.mistakes.tell(r, nc, "a client speaks TLS to the port that speaks cleartext: the configuration has no tls, or the client should not use it")
	}
}
