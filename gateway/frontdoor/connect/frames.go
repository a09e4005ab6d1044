package connect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/net/http/httpguts"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// An envelope is a byte of flags, the length of the message in four bytes, and the message.
const (
	prefixLen       = 5
	flagCompressed  = 1
	flagConnectEnd  = 2
	flagWebTrailers = 0x80
)

// frames reads the messages of a request with envelopes.
type frames struct {
	in   io.Reader
	gzip bool // the request may have compressed messages
	most int  // bytes of a message
	end  byte // flag of the envelope that ends the request, as clients may send
}

// next returns the next message, or io.EOF after the last.
func (f *frames) next() ([]byte, error) {
	var prefix [prefixLen]byte
	if _, err := io.ReadFull(f.in, prefix[:]); err != nil {
		return nil, err
	}
	flags, n := prefix[0], int64(binary.BigEndian.Uint32(prefix[1:]))
	most := f.most
	if flags&^flagCompressed != 0 {
		most = min(most, maxEnd)
	}
	if n > int64(most) {
		return nil, errTooLong
	}
	data, err := readN(f.in, n)
	if err != nil {
		return nil, err
	}
	if flags&flagCompressed != 0 {
		if !f.gzip {
			return nil, errMalformed
		}
		if data, err = inflate(data, most); err != nil {
			return nil, err
		}
	}
	if flags&^flagCompressed == 0 {
		return data, nil
	}
	return nil, f.last(flags, data)
}

// isOne reports whether a body is one uncompressed message.
func isOne(body []byte) bool {
	return len(body) >= prefixLen && body[0] == 0 && binary.BigEndian.Uint32(body[1:]) == uint32(len(body)-prefixLen)
}

// rest is the rest of a body of which a part was read with an error.
type rest struct {
	io.Reader
	err error // nil means that the rest may be read
}

// Read implements io.Reader.
func (r rest) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return r.Reader.Read(p)
}

// last returns io.EOF if an envelope is the well-formed end of the request. Its content has no meaning.
func (f *frames) last(flags byte, data []byte) error {
	var more [1]byte
	switch _, err := io.ReadFull(f.in, more[:]); {
	case err == nil || flags&f.end == 0:
		return errMalformed
	case !errors.Is(err, io.EOF):
		return err
	}
	isEnd := isTrailers
	if f.end == flagConnectEnd {
		isEnd = isEndOfStream
	}
	if !isEnd(data) {
		return errMalformed
	}
	return io.EOF
}

// maxEnd is the maximum size of the end of a request in bytes.
const maxEnd = 64 << 10

// isEndOfStream reports whether a text is a JSON object, as the end of a stream of Connect.
func isEndOfStream(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && strictjson.Check(text) == nil
}

// isTrailers reports whether a text consists of header lines, as the trailers of gRPC-Web. An empty line ends them.
func isTrailers(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		name, _, ok := bytes.Cut(line, []byte(":"))
		if len(line) == 0 {
			return true
		}
		if !ok || !httpguts.ValidHeaderFieldName(string(name)) {
			return false
		}
	}
	return true
}

// firstPart is the size up to which a message's memory is allocated before its bytes arrive.
const firstPart = 64 << 10

// readN reads n bytes. Memory grows with the bytes that arrive.
func readN(in io.Reader, n int64) ([]byte, error) {
	data := make([]byte, min(n, firstPart))
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, unexpected(err)
	}
	if n <= firstPart {
		return data, nil
	}
	out := bytes.NewBuffer(data)
	_, err := io.CopyN(out, in, n-firstPart)
	return out.Bytes(), unexpected(err)
}

// unexpected returns the error of a message that ends early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
