package localgrpc

import (
	"bytes"
	"cmp"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"

	"github.com/capgate/capgate/gateway/relay"
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

// inflate decompresses a message of at most most bytes; 0 means defaultMax. It returns a fault if the message is
// longer or invalid.
func inflate(name string, data []byte, most int) ([]byte, *fault) {
	wrong := func(f fault) ([]byte, *fault) { return nil, &f }
	c := encoding.GetCompressor(name)
	if c == nil {
		return wrong(unsupported)
	}
	most = cmp.Or(most, defaultMax)
	r, err := c.Decompress(bytes.NewReader(data))
	if err != nil {
		return wrong(uninflatable)
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case err != nil:
		return wrong(uninflatable)
	case len(out) > most:
		return wrong(tooLong)
	}
	return out, nil
}
