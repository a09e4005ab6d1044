// Package strictgzip reads gzip of exactly one member (RFC 1952 §2.2). Of more, and of what else follows the
// first, some decoders read all, some the first alone, and some neither.
package strictgzip

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
)

// ErrFollowed is the error after the one member where something follows it.
var ErrFollowed = errors.New("something follows the one gzip member that there may be")

// Reader reads one member. Its end is io.EOF, and where something follows, ErrFollowed.
type Reader struct {
	from byteReader
	gzip *gzip.Reader
	err  error // how it ended; nil: it has not
}

// byteReader is what gzip reads no further of than to the end of the member.
type byteReader interface {
	io.Reader
	io.ByteReader
}

// NewReader reads the member's header.
func NewReader(from io.Reader) (*Reader, error) {
	bytes, ok := from.(byteReader)
	if !ok {
		bytes = bufio.NewReader(from)
	}
	r, err := gzip.NewReader(bytes)
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	return &Reader{from: bytes, gzip: r}, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	var n int
	if n, r.err = r.gzip.Read(p); errors.Is(r.err, io.EOF) {
		r.err = r.end()
	}
	return n, r.err
}

// end is how what is read ends after the member: well, if there is nothing.
func (r *Reader) end() error {
	if _, err := r.from.ReadByte(); err != nil {
		return err
	}
	return ErrFollowed
}
