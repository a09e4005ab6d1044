package connect

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/capgate/capgate/internal/lib/strictgzip"
)

// compressFrom is the minimum length in bytes of compressed messages, for clients that accept compression.
const compressFrom = 1 << 10

// Common header values.
//
//nolint:gochecknoglobals // constants
var (
	gzipOnly = []string{"gzip"}
	noSniff  = []string{"nosniff"}
)

// acceptsGzip reports whether a client names gzip: the protocols have no weights.
func acceptsGzip(accept string) bool {
	return accept != "" &&
		slices.Contains(strings.FieldsFunc(accept, func(r rune) bool { return r == ',' || r == ' ' }), "gzip")
}

//nolint:gochecknoglobals // memory, shared by all calls
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func compressed(data []byte) []byte {
	var out bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(&out)
	_, _ = z.Write(data) // to memory
	_ = z.Close()
	z.Reset(io.Discard)
	gzipWriters.Put(z)
	return out.Bytes()
}

// inflate decompresses a message of at most most bytes.
func inflate(data []byte, most int) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	out, err := strictgzip.Inflate(data, most, nil) // expected has charged it
	switch {
	case errors.Is(err, strictgzip.ErrTooLong):
		return nil, errTooLong
	case err != nil:
		return nil, errMalformed
	}
	return out, nil
}
