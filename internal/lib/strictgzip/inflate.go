package strictgzip

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// ErrTooLong is the error of Inflate for a text that is too long.
var ErrTooLong = errors.New("the decompressed text is too long")

//nolint:gochecknoglobals // memory, shared by all callers
var readers = sync.Pool{New: func() any { return new(inflater) }}

// inflater is a Reader with its source.
type inflater struct {
	Reader
	packed bytes.Reader
}

// firstText is the smallest memory for a text in bytes.
const firstText = 512

// Inflate decompresses data, which must be exactly one member, to at most most bytes. hold charges the memory of the
// text before it grows to n bytes; its error ends the decompression. If hold is nil, nothing is charged.
func Inflate(data []byte, most int, hold func(n int) error) ([]byte, error) {
	r := readers.Get().(*inflater)
	defer func() {
		r.packed.Reset(nil)
		readers.Put(r)
	}()
	r.packed.Reset(data)
	if err := r.Reset(&r.packed); err != nil {
		return nil, err
	}
	return r.text(len(data), most, hold)
}

// text reads the text of a member of packed bytes. Its memory doubles, so that it is at most twice the text.
func (r *Reader) text(packed, most int, hold func(n int) error) ([]byte, error) {
	var text []byte
	for size := max(firstText, packed); ; size *= 2 {
		size = min(size, most+1) // a byte more shows that the text is too long
		if hold != nil {
			if err := hold(size); err != nil {
				return nil, err
			}
		}
		grown := make([]byte, size)
		n, err := io.ReadFull(r, grown[copy(grown, text):])
		text = grown[:len(text)+n]
		switch {
		case len(text) > most:
			return nil, ErrTooLong
		case errors.Is(r.err, io.EOF): // nothing follows the member
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}
