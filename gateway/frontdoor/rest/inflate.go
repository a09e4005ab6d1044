package rest

import (
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictgzip"
)

// inflated is a decompressed body. Its decoder is created at the first Read, because it takes memory.
type inflated struct {
	from io.Reader
	open func(io.Reader) (io.Reader, error)
	to   io.Reader
	done func()
}

// maxWindow is the maximum window of a zstd body in bytes. RFC 8878 §3.1.1.1.2 requires no more of a decoder.
const maxWindow = 8 << 20

// inflate decompresses r's body while it is read. The reader must limit its length.
func inflate(r *http.Request) *call.Refusal {
	coding := strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ","))
	in := &inflated{from: r.Body, done: func() {}}
	switch strings.TrimSpace(coding) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		in.open = func(from io.Reader) (io.Reader, error) { return strictgzip.NewReader(from) }
	case "zstd":
		in.open = func(from io.Reader) (io.Reader, error) {
			z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
			if err == nil {
				in.done = z.Close
			}
			return z, err
		}
	default:
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "UNSUPPORTED_ENCODING",
			Message: "the body is compressed in a way that the gateway does not support; use gzip, zstd or no " +
				"compression"}
	}
	r.Body, r.ContentLength = in, -1
	r.Header.Del("Content-Encoding")
	return nil
}

func (in *inflated) Read(p []byte) (n int, err error) {
	if in.to == nil {
		if in.to, err = in.open(in.from); err != nil {
			in.to = nil
			return 0, err
		}
	}
	return in.to.Read(p)
}

// Close closes the decoder. net/http closes the body after the response; otherwise it would continue to read first.
func (in *inflated) Close() error {
	in.done()
	return nil
}
