package accept

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

const (
	// warnEvery is the minimum interval of log lines about failures that any client can cause.
	warnEvery = 10 * time.Second
	// mismatchTimeout is the timeout of the response to a client with the wrong protocol, and mismatchRead the number
	// of bytes read from it.
	mismatchTimeout = time.Second
	mismatchRead    = 64 << 10
	// handshakeRecord is the first byte of a TLS handshake (RFC 8446 §5.1).
	handshakeRecord = 0x16
)

// warnings logs connections that were closed because of their clients, at most one per warnEvery.
type warnings struct {
	next   atomic.Int64 // time of the next line, Unix nanoseconds
	others atomic.Int64 // omitted since the last line
}

func (w *warnings) warn(log *slog.Logger, nc net.Conn, text string) {
	now, next := time.Now().UnixNano(), w.next.Load()
	if now < next || !w.next.CompareAndSwap(next, now+int64(warnEvery)) {
		w.others.Add(1)
		return
	}
	log.Warn(text, "remote", nc.RemoteAddr().String(), "others", w.others.Swap(0))
}

// cleartextToTLS responds to a client that did not start with TLS, if it appears to use HTTP.
func (s *Server) cleartextToTLS(nc net.Conn, err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || !looksLikeHTTP(record.RecordHeader) {
		return
	}
	begun, ok := record.Conn.(*handshakeConn)
	if !ok {
		return
	}
	s.mismatches.warn(s.cfg.Log, nc, "HTTP in cleartext at a port that requires TLS")
	_ = nc.SetDeadline(time.Now().Add(mismatchTimeout))
	if string(record.RecordHeader[:]) == Preface[:len(record.RecordHeader)] {
		in := io.LimitReader(io.MultiReader(bytes.NewReader(begun.seen), nc), mismatchRead)
		s.http2.RejectCleartext(nc, in)
	} else {
		page := s.cfg.Pages.TLSRequired
		_, _ = fmt.Fprintf(nc, "HTTP/1.1 400 Bad Request\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: "+
			"close\r\n\r\n%s", page.Type, len(page.Body), page.Body)
	}
	// Closing a connection with unread input resets it, and the client may lose the response.
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, nc, mismatchRead)
	}
}

// looksLikeHTTP reports whether the bytes are the start of HTTP/2's preface, or of a request.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case Preface[:5], "GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO":
		return true
	}
	return false
}

// tlsToCleartext logs a client that starts with TLS at a cleartext port.
func (s *Server) tlsToCleartext(nc net.Conn, first []byte) {
	if len(first) > 0 && first[0] == handshakeRecord {
		s.mismatches.warn(s.cfg.Log, nc,
			"TLS at a cleartext port: configure tls for it, or use a client without TLS")
	}
}
