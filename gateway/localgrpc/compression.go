package localgrpc

import (
	"cmp"
	"errors"

	"google.golang.org/grpc/encoding/gzip"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/strictgzip"
)

// defaultMax is the default maximum size of a decompressed message, in bytes.
const defaultMax = 16 << 20

// acceptedEncodings returns the header with the accepted compressions of a response.
func acceptedEncodings() []relay.Field {
	return []relay.Field{{Name: "grpc-accept-encoding", Value: gzip.Name}}
}

// encodingOf returns the compression of messages after a header; empty means none.
func encodingOf(header []relay.Field) string {
	for _, f := range header {
		if f.Name == "grpc-encoding" {
			return f.Value
		}
	}
	return ""
}

// inflate decompresses a message of at most most bytes; 0 means defaultMax. hold charges its memory before it grows to
// n bytes; nil means that nothing is charged. of returns the error of a fault. A message must be one gzip member: the
// decoders of gRPC disagree about several.
func inflate(name string, data []byte, most int, hold func(n int) error, of func(fault) error) ([]byte, error) {
	if name != gzip.Name {
		return nil, of(unsupported)
	}
	var refused error
	out, err := strictgzip.Inflate(data, cmp.Or(most, defaultMax), func(n int) error {
		if hold != nil {
			refused = hold(n)
		}
		return refused
	})
	switch {
	case refused != nil:
		return nil, refused
	case errors.Is(err, strictgzip.ErrTooLong):
		return nil, of(tooLong)
	case err != nil:
		return nil, of(uninflatable)
	}
	return out, nil
}
