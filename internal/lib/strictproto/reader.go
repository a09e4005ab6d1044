package strictproto

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// maxField is the highest number of a field that a Shape can describe.
const maxField = 31

// Kind is the kind of a field in a Shape.
type Kind uint8

// The kinds. A field of any kind but Unknown and Messages occurs at most once.
const (
	Unknown  Kind = iota // any wire type, any number of times
	Bytes                // the value is not checked
	String               // UTF-8 without a byte order mark
	Message              // the value is not checked
	Messages             // the same, any number of times
	Bool                 // 0 or 1; from here on the kinds are varints
	Int32                // also an enum
)

// Shape has the kinds of a message's fields, by their numbers. Higher numbers are Unknown.
type Shape [maxField + 1]Kind

// The wire types (https://protobuf.dev/programming-guides/encoding/#structure).
const (
	typeVarint     = 0
	typeFixed64    = 1
	typeBytes      = 2
	typeStartGroup = 3
	typeEndGroup   = 4
	typeFixed32    = 5
)

// Reader iterates over the fields of one message. It does not allocate.
type Reader struct {
	Number uint32 // number of the field that Next read
	Kind   Kind   // its kind in the Shape
	Value  []byte // the value of a length-delimited field, a part of the message; else nil
	Varint uint64 // the value of a varint; else 0
	Field  []byte // the whole field with its tag

	shape *Shape
	rest  []byte
	seen  uint32 // bit set of the numbers of fields
	err   error
}

// Read returns a Reader of a message.
func Read(msg []byte, shape *Shape) Reader { return Reader{rest: msg, shape: shape} }

// Next reads the next field. It returns false at the end of the message and for a rejected field; Err distinguishes
// them.
func (r *Reader) Next() bool {
	more, err := r.next()
	r.err = err
	return more
}

// Err returns the reason for which Next rejected a field, or nil at the end of the message.
func (r *Reader) Err() error { return r.err }

func (r *Reader) next() (bool, error) {
	msg := r.rest
	if len(msg) == 0 {
		return false, nil
	}
	tag, n := uint64(msg[0]), 1
	if tag >= 0x80 {
		var err error
		if tag, n, err = longTag(msg); err != nil {
			return false, err
		}
	}
	number, kind, typ := uint32(tag>>3), Unknown, int(tag&7)
	if number == 0 {
		return false, errNumber
	}
	if number <= maxField {
		kind = r.shape[number]
	}
	r.Number, r.Kind = number, kind
	var err error
	if typ == typeBytes {
		n, err = r.delimited(msg, n)
	} else {
		n, err = r.other(msg, n, typ)
	}
	if err != nil {
		return false, err
	}
	if kind != Unknown {
		if err := r.check(typ); err != nil {
			return false, err
		}
	}
	r.Field, r.rest = msg[:n], msg[n:]
	return true, nil
}

// longTag reads a tag of more than one byte.
func longTag(msg []byte) (tag uint64, n int, err error) {
	switch tag, n = binary.Uvarint(msg); {
	case n <= 0:
		return 0, 0, ErrMalformed
	case msg[n-1] == 0:
		return 0, 0, errTag
	case tag > math.MaxUint32: // a number has 29 bits, a wire type 3
		return 0, 0, errNumber
	}
	return tag, n, nil
}

// delimited reads the length and the value that follow a tag at msg[n:], and returns their end.
func (r *Reader) delimited(msg []byte, n int) (int, error) {
	if len(msg) == n {
		return 0, ErrMalformed
	}
	length := uint64(msg[n])
	n++
	if length >= 0x80 {
		var m int
		switch length, m = binary.Uvarint(msg[n-1:]); {
		case m <= 0:
			return 0, ErrMalformed
		case msg[n+m-2] == 0:
			return 0, errLength
		}
		n += m - 1
	}
	if length > uint64(len(msg)-n) {
		return 0, ErrMalformed
	}
	end := n + int(length)
	r.Value, r.Varint = msg[n:end:end], 0
	return end, nil
}

// other reads the value that follows a tag of another wire type at msg[n:], and returns its end.
func (r *Reader) other(msg []byte, n, typ int) (int, error) {
	r.Value, r.Varint = nil, 0
	switch typ {
	case typeVarint:
		v, m := binary.Uvarint(msg[n:])
		if m <= 0 {
			return 0, ErrMalformed
		}
		n += m
		// All decoders skip an unknown varint that is longer than necessary.
		if r.Kind != Unknown && m > 1 && msg[n-1] == 0 {
			return 0, r.fault(wrongNumber)
		}
		r.Varint = v
		return n, nil
	case typeFixed64:
		n += 8
	case typeFixed32:
		n += 4
	case typeStartGroup, typeEndGroup:
		return 0, errGroup
	default:
		return 0, ErrMalformed
	}
	if len(msg) < n {
		return 0, ErrMalformed
	}
	return n, nil
}

// check compares a known field with its kind.
func (r *Reader) check(typ int) error {
	if (typ == typeVarint) != (r.Kind >= Bool) || typ != typeBytes && typ != typeVarint {
		return r.fault(wrongType)
	}
	if r.Kind != Messages {
		if r.seen&(1<<r.Number) != 0 {
			return r.fault(repeated)
		}
		r.seen |= 1 << r.Number
	}
	switch r.Kind {
	case String:
		return r.text()
	case Bool:
		if r.Varint > 1 {
			return r.fault(wrongNumber)
		}
	case Int32: // a negative one is extended to 64 bits
		if v := int64(r.Varint); v != int64(int32(v)) {
			return r.fault(wrongNumber)
		}
	case Unknown, Bytes, Message, Messages:
	}
	return nil
}

func (r *Reader) text() error {
	v := r.Value
	if len(v) >= 3 && v[0] == 0xef && v[1] == 0xbb && v[2] == 0xbf {
		return r.fault(marked)
	}
	if !utf8.Valid(v) {
		return r.fault(notUTF8)
	}
	return nil
}

func (r *Reader) fault(why fault) error { return faults[why][r.Number] }
