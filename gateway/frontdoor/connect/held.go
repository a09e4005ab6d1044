package connect

import (
	"io"
	"net/http"

	"google.golang.org/grpc/status"
)

// inflated is how many times as long as before gzip can make a text (RFC 1951: 258 bytes of two bits).
const inflated = 1032

// expected returns the maximum number of bytes that a request holds in memory, given the maximum size of a
// message; 0 means unknown. A compressed message counts with its maximum size.
func expected(r *http.Request, most int64) int64 {
	length := min(r.ContentLength, most)
	for _, name := range []string{"Content-Encoding", "Connect-Content-Encoding", "Grpc-Encoding"} {
		if coding := r.Header.Get(name); coding == "" || coding == "identity" {
			continue
		}
		if length < 0 {
			return most
		}
		return min(length*inflated, most)
	}
	return length
}

// heldBody is one whose errors may be the gateway's own. It is not closed before it is answered: net/http would read
// on first.
type heldBody struct {
	io.Reader
	failed error // as the client gets it, where it is the gateway's own; nil means none
}

// Close implements io.Closer.
func (b *heldBody) Close() error { return nil }

// Read implements io.Reader.
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if _, refused := status.FromError(err); refused && err != nil {
		b.failed = errorOf(err)
		err = b.failed
	}
	return n, err
}
