package hpack_test

import (
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

// maxLast is the maximum size of a representation that a Decoder keeps.
const maxLast = 1024

// literal returns a literal field that is never indexed, with a Huffman-coded value. name is the index of its name, or
// 0 and the name as a string.
func literal(name []byte, value string) []byte {
	coded := xnet.AppendHuffmanString(nil, value)
	if len(coded) >= 127 {
		return append(append(name, 0xff, byte(len(coded)-127)), coded...)
	}
	return append(append(name, 0x80|byte(len(coded))), coded...)
}

// TestRepeatedLiteral: a field that a client never indexes is the same each time, whether the decoder has just decoded
// it or not, counts for the list's size, and is not indexed behind.
func TestRepeatedLiteral(t *testing.T) {
	t.Parallel()
	authorization := []byte{0x1f, 0x08}
	named := append([]byte{0x10, 5}, "x-key"...)
	d := hpack.NewDecoder(hpack.NewInterner(func(name, value string) uint32 {
		return uint32(len(name)<<8 | len(value))
	}), 4096)
	for _, test := range []struct {
		name   []byte
		header string
		value  string
	}{
		{authorization, "authorization", "Bearer cg_12345678901"},
		{authorization, "authorization", "Bearer cg_12345678902"},
		{named, "x-key", "cg_1234567890123456"}, {authorization, "authorization", "cg_1234567890123456"},
		{named, "x-key", strings.Repeat("a", 160)}, {[]byte{0x04}, ":path", "/weather.Weather/Forecast"},
	} {
		block := append(literal(slices.Clone(test.name), test.value), 0x82) // and :method GET
		var first, l hpack.List
		check.Must(t, d.Decode(block, &first, roomy))
		check.Must(t, d.Decode(block, &l, roomy))
		want := []nv{{test.header, test.value, test.name[0] != 0x04}, {name: ":method", value: "GET"}}
		if got, again := fieldsOf(&first), fieldsOf(&l); !slices.Equal(got, want) || !slices.Equal(again, want) {
			t.Errorf("%v, then %v, not %v", got, again, want)
		}
		if tag := uint32(len(test.header)<<8 | len(test.value)); l.Fields[0].Tag != tag {
			t.Errorf("%s has the tag %x, not %x", test.value, l.Fields[0].Tag, tag)
		}
		var short hpack.List
		if err := d.Decode(block, &short, len(test.value)); err != hpack.ErrListTooLong || len(short.Fields) > 0 {
			t.Errorf("a short list: %v, %v", short.Fields, err)
		}
	}
	if n := d.Kept(); n < 200 || n > 2*(maxLast+maxLast*8/5+64) {
		t.Errorf("%d bytes are kept", n)
	}
	if d.Forget(); d.Kept() != 0 {
		t.Error("something is kept")
	}
}

// TestRepeatedLiteralOfTheTable: the name of a literal may be an index of the dynamic table, which names another field
// later.
func TestRepeatedLiteralOfTheTable(t *testing.T) {
	t.Parallel()
	d := hpack.NewDecoder(hpack.NewInterner(nil), 4096)
	for _, name := range []string{"x-first", "x-second"} {
		block := append([]byte{0x40, byte(len(name))}, name...)
		block = append(block, 1, '1')
		block = append(block, literal([]byte{0x1f, 62 - 15}, "a value that is long enough")...)
		var l hpack.List
		check.Must(t, d.Decode(block, &l, roomy))
		if got, want := fieldsOf(&l)[1], (nv{name, "a value that is long enough", true}); got != want {
			t.Errorf("%v, not %v", got, want)
		}
	}
}

// TestRepeatedLiteralAllocatesNothing, also if it changes every other time. It is not parallel, because AllocsPerRun
// counts the allocations of the whole process.
func TestRepeatedLiteralAllocatesNothing(t *testing.T) {
	d, l := hpack.NewDecoder(hpack.NewInterner(nil), 4096), new(hpack.List)
	blocks := [][]byte{literal([]byte{0x1f, 0x08}, "Bearer 12345678901234567890"),
		literal([]byte{0x1f, 0x08}, "Bearer 123456789012345678901")}
	n := 0
	check.Must(t, d.Decode(blocks[1], l, roomy))
	if allocs := testing.AllocsPerRun(100, func() {
		l.Reset()
		if err := d.Decode(blocks[n/2%2], l, roomy); err != nil {
			t.Error(err)
		}
		n++
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
