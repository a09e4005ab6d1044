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
	// warnEvery is how often a client's failure is logged: any client can cause one.
	warnEvery = 10 * time.Second
	// mismatchTimeout bounds the response to a client of the wrong protocol, and mismatchRead what is read of it, in
	// bytes.
	mismatchTimeout = time.Second
	mismatchRead    = 64 << 10
	// handshakeRecord is the first byte of a TLS handshake (RFC 8446 §5.1).
	handshakeRecord = 0x16
)

// warnings logs connections that were closed because of their clients, one in warnEvery.
type warnings struct {
	next   atomic.Int64 // when one may be logged again, Unix nanoseconds
	others atomic.Int64 // since one was logged
}

func (w *warnings) warn(log *slog.Logger, nc net.Conn, text string) {
	now, next := time.Now().UnixNano(), w.next.Load()
	if now < next || !w.next.CompareAndSwap(next, now+int64(warnEvery)) {
		w.others.Add(1)
		return
	}
	log.Warn(text, "remote", nc.RemoteAddr().String(), "others", w.others.Swap(0))
}

// cleartextToTLS responds to a client that did not begin with TLS, if it looks like HTTP.
func (s *Server) cleartextToTLS(nc net.Conn, err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || !looksLikeHTTP(record.RecordHeader) {
		return
	}
	begun, ok := record.Conn.(*handshakeConn)
	if !ok {
		return
	}
	s.mismatches.warn(s.cfg.Log, nc, "a client speaks HTTP in cleartext to the port that speaks TLS")
	_ = nc.SetDeadline(time.Now().Add(mismatchTimeout))
	if string(record.RecordHeader[:]) == Preface[:len(record.RecordHeader)] {
		in := io.LimitReader(io.MultiReader(bytes.NewReader(begun.seen), nc), mismatchRead)
		s.http2.RejectCleartext(nc, in)
	} else {
		page := s.cfg.Pages.TLSRequired
		_, _ = fmt.Fprintf(nc, "HTTP/1.1 400 Bad Request\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: "+
			"close\r\n\r\n%s", page.Type, len(page.Body), page.Body)
	}
	// A connection that is closed with something unread is reset, and the client may lose the response.
	if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, nc, mismatchRead)
	}
}

// looksLikeHTTP reports whether the bytes begin HTTP/2's preface, or a request.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case Preface[:5], "GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO":
		return true
	}
	return false
}

// tlsToCleartext logs a client that begins with TLS where the port speaks cleartext.
func (s *Server) tlsToCleartext(nc net.Conn, first []byte) {
	if len(first) > 0 && first[0] == handshakeRecord {
		s.mismatches.warn(s.cfg.Log, nc,
			"a client speaks TLS to the port that speaks cleartext: the configuration has no "+
				"tls, or the client should not use it")
	}
}
