// Package strictgzip reads gzip of exactly one member (RFC 1952 §2.2). Decoders disagree about more members,
// and about other bytes after the first.
package strictgzip

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
)

// ErrFollowed is the error when bytes follow the one member.
var ErrFollowed = errors.New("bytes follow the gzip member; exactly one is allowed")

// Reader reads one member. It ends with io.EOF, or with ErrFollowed if bytes follow.
type Reader struct {
	from byteReader
	gzip gzip.Reader
	err  error // the final error; nil while it reads
}

// byteReader keeps gzip from reading beyond the end of the member.
type byteReader interface {
	io.Reader
	io.ByteReader
}

// NewReader returns a Reader, and reads the member's header.
func NewReader(from io.Reader) (*Reader, error) {
	r := new(Reader)
	if err := r.Reset(from); err != nil {
		return nil, err
	}
	return r, nil
}

// Reset makes r read another member, and reads its header.
func (r *Reader) Reset(from io.Reader) error {
	bytes, ok := from.(byteReader)
	if !ok {
		bytes = bufio.NewReader(from)
	}
	r.from, r.err = bytes, r.gzip.Reset(bytes)
	if r.err == nil {
		r.gzip.Multistream(false)
	}
	return r.err
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

// end returns io.EOF if nothing follows the member.
func (r *Reader) end() error {
	if _, err := r.from.ReadByte(); err != nil {
		return err
	}
	return ErrFollowed
}
