package localgrpc

import (
	"bytes"
	"cmp"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"

	"github.com/capgate/capgate/gateway/relay"
)

// defaultMax is the longest message that is decompressed where nothing else is said, in bytes.
const defaultMax = 16 << 20

// acceptedEncodings returns the header by which a request says how its answer may be compressed.
func acceptedEncodings() []relay.Field {
	return []relay.Field{{Name: "grpc-accept-encoding", Value: gzip.Name}}
}

// encodingOf is how messages are compressed that follow a header; "" where it does not say.
func encodingOf(header []relay.Field) string {
	for _, f := range header {
		if f.Name == "grpc-encoding" {
			return f.Value
		}
	}
	return ""
}

// inflate decompresses a message, and stops where it is longer than most bytes; 0 means defaultMax. A nil fault: it is
// whole.
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
