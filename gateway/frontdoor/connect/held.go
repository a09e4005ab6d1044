package connect

import (
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/internal/call"
)

// inflated is the maximum ratio of decompression with gzip (RFC 1951: 258 bytes from two bits).
const inflated = 1032

// expected returns the maximum number of bytes that a request holds in memory; 0 means unknown. most is the maximum
// size of a message. A compressed message counts with its maximum size.
func expected(r *http.Request, most int64) int64 {
	length := min(r.ContentLength, most)
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding"} {
		if coding := header.First(r.Header, name); coding == "" || coding == "identity" {
			continue
		}
		if length < 0 {
			return most
		}
		return min(length*inflated, most)
	}
	return length
}

// heldBody is a request body whose errors may be those of the gateway.
type heldBody struct {
	io.Reader
	held   *bodybudget.Reservation // memory of the request; nil means no limit
	failed *failure                // as the client gets it, where it is the gateway's own; nil means none
	ended  bool                    // the body was read to its end
}

// maxDiscarded is the number of bytes that are read after a message that is too long. Over HTTP/1.1, some clients read
// no response while they send.
const maxDiscarded = 1 << 20

// discard reads the rest of the body up to maxDiscarded bytes. It holds no memory.
func (b *heldBody) discard() {
	var part [16 << 10]byte
	for n := 0; n < maxDiscarded; {
		b.held.Discard()
		m, err := b.Read(part[:])
		if n += m; err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if _, refused := status.FromError(err); refused && err != nil {
		b.failed = failureOf(err, call.NotSent)
		err = b.failed
	}
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}
