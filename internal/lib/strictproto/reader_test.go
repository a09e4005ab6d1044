package strictproto_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/internal/lib/strictproto"
)

var shape = strictproto.Shape{
	1: strictproto.String, 2: strictproto.Bytes, 3: strictproto.Messages, 4: strictproto.Bool, 5: strictproto.Int32,
	6: strictproto.Message,
}

func wire(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

func str(num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s)
}

func varint(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

func read(msg []byte) (fields int, err error) {
	r := strictproto.Read(msg, &shape)
	for r.Next() {
		fields++
	}
	return fields, r.Err()
}

// TestReader: messages of all encoders are accepted. Messages that no encoder writes or no decoder accepts are not.
func TestReader(t *testing.T) {
	t.Parallel()
	minus, high := int32(-1), bytes.Repeat([]byte{0xff}, 9)
	for name, test := range map[string]struct {
		msg    []byte
		fields int
		err    error
	}{
		"nothing": {nil, 0, nil},
		"all there is": {wire(str(1, "ü"), str(2, "\xff"), str(3, "\xff"), varint(4, 1), varint(5, 300),
			str(6, "x")), 6, nil},
		"in another order":   {wire(str(6, "x"), varint(4, 0), str(1, "")), 3, nil},
		"messages of a list": {wire(str(3, "a"), str(3, "b"), str(3, "")), 3, nil},
		"a number below 0":   {varint(5, uint64(int64(minus))), 1, nil},
		"unknown fields": {wire(varint(9, 1<<63), varint(9, 0), str(31, "\xff"), str(32, "x"),
			[]byte{0x4d, 1, 2, 3, 4}, []byte{0x49, 1, 2, 3, 4, 5, 6, 7, 8}), 6, nil},
		"the highest number":  {str(protowire.MaxValidNumber, "x"), 1, nil},
		"an unknown long 0":   {[]byte{0x48, 0x80, 0x80, 0x00}, 1, nil},
		"a mark further on":   {str(1, "a\ufeff"), 1, nil},
		"a mark that is none": {str(1, "\xef\xbb\xbe"), 1, nil},
		"a long value":        {str(2, strings.Repeat("x", 300)), 1, nil},
		"text as varint":      {varint(1, 1), 0, strictproto.ErrAmbiguous},
		"text as fixed32":     {[]byte{0x0d, 1, 2, 3, 4}, 0, strictproto.ErrAmbiguous},
		"text as fixed64":     {[]byte{0x09, 1, 2, 3, 4, 5, 6, 7, 8}, 0, strictproto.ErrAmbiguous},
		"list as varint":      {varint(3, 1), 0, strictproto.ErrAmbiguous},
		"bool as text":        {str(4, "\x01"), 0, strictproto.ErrAmbiguous},
		"bool of 2":           {varint(4, 2), 0, strictproto.ErrAmbiguous},
		"bool of 1<<32":       {varint(4, 1<<32), 0, strictproto.ErrAmbiguous},
		"a long bool":         {[]byte{0x20, 0x81, 0x00}, 0, strictproto.ErrAmbiguous},
		"int32 of 1<<31":      {varint(5, 1<<31), 0, strictproto.ErrAmbiguous},
		"int32 of 32 bits":    {varint(5, math.MaxUint32), 0, strictproto.ErrAmbiguous},
		"packed int32":        {str(5, "\x01"), 0, strictproto.ErrAmbiguous},
		"text twice":          {wire(str(1, "a"), str(1, "a")), 0, strictproto.ErrAmbiguous},
		"bool twice":          {wire(varint(4, 0), varint(4, 0)), 0, strictproto.ErrAmbiguous},
		"message twice":       {wire(str(6, ""), str(6, "")), 0, strictproto.ErrAmbiguous},
		"a long tag":          {[]byte{0x8a, 0x00, 0x01, 'x'}, 0, strictproto.ErrAmbiguous},
		"a longer tag":        {[]byte{0x8a, 0x80, 0x80, 0x00, 0x01, 'x'}, 0, strictproto.ErrAmbiguous},
		"a long unknown tag":  {[]byte{0xca, 0x80, 0x00, 0x01, 'x'}, 0, strictproto.ErrAmbiguous},
		"a long length":       {[]byte{0x0a, 0x81, 0x00, 'x'}, 0, strictproto.ErrAmbiguous},
		"a long length of 0":  {[]byte{0x4a, 0x80, 0x00}, 0, strictproto.ErrAmbiguous},
		"a tag over 32 bits": {wire([]byte{0x8a, 0x80, 0x80, 0x80, 0x10}, []byte{1, 'x'}), 0,
			strictproto.ErrAmbiguous},
		"number 0":              {str(0, "x"), 0, strictproto.ErrAmbiguous},
		"number 0 as varint":    {[]byte{0, 0}, 0, strictproto.ErrAmbiguous},
		"a group":               {[]byte{0x4b, 0x4c}, 0, strictproto.ErrAmbiguous},
		"a group that is known": {[]byte{0x0b, 0x0c}, 0, strictproto.ErrAmbiguous},
		"the end of a group":    {[]byte{0x4c}, 0, strictproto.ErrAmbiguous},
		"not UTF-8":             {str(1, "a\xff"), 0, strictproto.ErrAmbiguous},
		"a surrogate":           {str(1, "\xed\xa0\x80"), 0, strictproto.ErrAmbiguous},
		"a long NUL":            {str(1, "\xc0\x80"), 0, strictproto.ErrAmbiguous},
		"a byte order mark":     {str(1, "\ufeffx"), 0, strictproto.ErrAmbiguous},
		"nothing but a mark":    {str(1, "\ufeff"), 0, strictproto.ErrAmbiguous},
		"wire type 6":           {[]byte{0x0e}, 0, strictproto.ErrMalformed},
		"wire type 7":           {[]byte{0x4f}, 0, strictproto.ErrMalformed},
		"a tag cut off":         {[]byte{0x80}, 0, strictproto.ErrMalformed},
		"a tag alone":           {[]byte{0x0a}, 0, strictproto.ErrMalformed},
		"a length cut off":      {[]byte{0x0a, 0x80}, 0, strictproto.ErrMalformed},
		"a value cut off":       {[]byte{0x0a, 5, 'a'}, 0, strictproto.ErrMalformed},
		"a varint cut off":      {[]byte{0x48, 0x80}, 0, strictproto.ErrMalformed},
		"a varint that is none": {[]byte{0x48}, 0, strictproto.ErrMalformed},
		"fixed32 cut off":       {[]byte{0x4d, 1, 2, 3}, 0, strictproto.ErrMalformed},
		"fixed64 cut off":       {[]byte{0x49, 1, 2, 3, 4, 5, 6, 7}, 0, strictproto.ErrMalformed},
		"eleven bytes": {wire([]byte{0x48}, bytes.Repeat([]byte{0x80}, 10), []byte{1}), 0,
			strictproto.ErrMalformed},
		"over 64 bits":        {wire([]byte{0x48}, high, []byte{2}), 0, strictproto.ErrMalformed},
		"a length over int64": {wire([]byte{0x12}, high, []byte{1}), 0, strictproto.ErrMalformed},
		"a tag over 64 bits":  {wire(high, []byte{2}), 0, strictproto.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields, err := read(test.msg)
			if !errors.Is(err, test.err) || err == nil && fields != test.fields {
				t.Errorf("%d fields, %v; want %d, %v", fields, err, test.fields, test.err)
			}
		})
	}
}

// FuzzReader: an accepted message is in its canonical form, other than varints of unknown fields.
func FuzzReader(f *testing.F) {
	f.Add(wire(str(1, "ü"), str(2, "\xff"), str(3, "\xff"), varint(4, 1), varint(5, 300), str(99, "x")))
	f.Add([]byte{0x8a, 0x00, 0x01, 'x'})
	f.Fuzz(func(t *testing.T, msg []byte) {
		r := strictproto.Read(msg, &shape)
		var written []byte
		for r.Next() {
			num, typ, n := protowire.ConsumeTag(r.Field)
			if uint32(num) != r.Number || n < 0 || protowire.ConsumeFieldValue(num, typ,
				r.Field[n:]) != len(r.Field)-n {
				t.Fatalf("protobuf does not read field %d of %x; n %+v", r.Number, r.Field, n)
			}
			written = protowire.AppendTag(written, num, typ)
			switch {
			case r.Value != nil:
				written = protowire.AppendBytes(written, r.Value)
			default:
				written = append(written, r.Field[n:]...)
			}
		}
		if r.Err() == nil && !bytes.Equal(written, msg) {
			t.Fatalf("%x is read, and written as %x", msg, written)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	msg := wire(str(1, "get_current_weather"), str(2, strings.Repeat("a", 1024)), varint(4, 1), varint(5, 7),
		str(6, "weather"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(msg); err != nil {
			b.Fatal(err)
		}
	}
}
