package hpack_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

// huffmanString returns a literal field x: <coded bytes>.
func huffmanString(coded ...byte) []byte {
	return append([]byte{0x00, 0x01, 'x', 0x80 | byte(len(coded))}, coded...)
}

func TestDecodeMalformed(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		block []byte
		want  error
	}{
		{"index 0", []byte{0x80}, hpack.ErrIndex},
		{"index past the static table", []byte{0x80 | 62}, hpack.ErrIndex},
		{"index far away", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x07}, hpack.ErrIndex},
		{"name index past the static table", []byte{0x7e, 0x01, 'v'}, hpack.ErrIndex},
		{"index over 32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x1f}, hpack.ErrInteger},
		{"index of too many octets", []byte{0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, hpack.ErrInteger},
		{"index cut off", []byte{0xff, 0x80}, hpack.ErrTruncated},
		{"no name", []byte{0x40}, hpack.ErrTruncated},
		{"name cut off", []byte{0x40, 0x05, 'n', 'a'}, hpack.ErrTruncated},
		{"no value", []byte{0x40, 0x01, 'n'}, hpack.ErrTruncated},
		{"value cut off", []byte{0x40, 0x01, 'n', 0x02, 'v'}, hpack.ErrTruncated},
		{"value's length cut off", []byte{0x40, 0x01, 'n', 0x7f}, hpack.ErrTruncated},
		{"value of 4 GiB", []byte{0x40, 0x01, 'n', 0x7f, 0x80, 0xff, 0xff, 0xff, 0x0f}, hpack.ErrTruncated},
		{"update over the limit", []byte{0x3f, 0xe2, 0x1f}, hpack.ErrTableSize},
		{"update after a field", []byte{0x82, 0x20}, hpack.ErrTableSize},
		{"update cut off", []byte{0x3f}, hpack.ErrTruncated},
		{"padding of 8 ones", huffmanString(0xff), hpack.ErrHuffman},
		{"padding of 7 ones after a symbol and a byte", huffmanString(0x07, 0xff), hpack.ErrHuffman},
		{"padding with a zero", huffmanString(0x00), hpack.ErrHuffman},
		{"padding with a zero at its end", huffmanString(0x06), hpack.ErrHuffman},
		{"EOS", huffmanString(0xff, 0xff, 0xff, 0xfc), hpack.ErrHuffman},
		{"EOS and padding", huffmanString(0xff, 0xff, 0xff, 0xff), hpack.ErrHuffman},
		{"EOS in a long string", huffmanString(append(bytes.Repeat([]byte{0xff}, 12), 0)...), hpack.ErrHuffman},
		{"long code cut off", huffmanString(0xff, 0xff, 0xfe), hpack.ErrHuffman},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var l hpack.List
			err := hpack.NewDecoder(hpack.NewInterner(nil), 4096).Decode(c.block, &l, roomy)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestDecodeUnusualButRight(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		block []byte
		want  []nv
	}{
		{"empty block", nil, nil},
		{"empty name and value", []byte{0x00, 0x00, 0x00}, []nv{{}}},
		{"empty Huffman string", huffmanString(), []nv{{name: "x"}}},
		{"padding of 3 ones", huffmanString(0x07), []nv{{name: "x", value: "0"}}},
		{"padding of 7 ones", huffmanString(0, 0, 0, 0x7f), []nv{{name: "x", value: "00000"}}},
		{"update to the limit", []byte{0x3f, 0xe1, 0x1f, 0x82}, []nv{{name: ":method", value: "GET"}}},
		{"three updates", []byte{0x20, 0x3f, 0xe1, 0x1f, 0x21, 0x82}, []nv{{name: ":method", value: "GET"}}},
		{"integer with a superfluous octet", []byte{0x0f, 0x80, 0x00, 0x01, 'v'},
			[]nv{{name: "accept-charset", value: "v"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var l hpack.List
			check.Must(t, hpack.NewDecoder(hpack.NewInterner(nil), 4096).Decode(c.block, &l, roomy))
			if got := fieldsOf(&l); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestHuffmanAllSymbols decodes each symbol before and after each other one, in short strings and in strings long
// enough for the fast path.
func TestHuffmanAllSymbols(t *testing.T) {
	t.Parallel()
	d := hpack.NewDecoder(hpack.NewInterner(nil), 4096)
	var l hpack.List
	for a := range 256 {
		for b := range 256 {
			for _, n := range []int{1, 9} {
				want := strings.Repeat(string([]byte{byte(a), byte(b)}), n)
				coded := xnet.AppendHuffmanString(nil, want)
				l.Reset()
				if err := d.Decode(huffmanString(coded...), &l, roomy); err != nil {
					t.Fatalf("%q: %v", want, err)
				}
				if got := l.Fields[0].Value; got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
			}
		}
	}
}

// TestEviction compares the decoder with x/net while a small table evicts its fields, which are referenced, and so
// interned, at every age.
func TestEviction(t *testing.T) {
	t.Parallel()
	for _, size := range []uint32{0, 40, 64, 100, 256, 4096, 65536} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			d := hpack.NewDecoder(hpack.NewInterner(nil), size)
			x := xnet.NewDecoder(size, nil)
			e := newXEncoder()
			e.SetMaxDynamicTableSizeLimit(size)
			e.SetMaxDynamicTableSize(size)
			var l hpack.List
			for i := range 2000 {
				fields := append(request(i), nv{name: "x-len", value: strings.Repeat("a", i*37%300)},
					nv{name: "x-some", value: fmt.Sprint(i % 7)}, nv{name: "x-some", value: fmt.Sprint(i % 50)})
				block := e.block(fields...)
				want, err := x.DecodeFull(block)
				check.Must(t, err)
				l.Reset()
				if err := d.Decode(block, &l, roomy); err != nil {
					t.Fatalf("block %d: %v", i, err)
				}
				if got := fieldsOf(&l); !slices.Equal(got, fieldsOfX(want)) {
					t.Fatalf("block %d:\n got %v\nwant %v", i, got, want)
				}
			}
		})
	}
}

// TestListTooLong: a few bytes expand to many megabytes. The decoder refuses the list and its table stays correct.
func TestListTooLong(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3000, 50_000} { // short enough to be interned, and too long
		d := hpack.NewDecoder(hpack.NewInterner(nil), 65536)
		e := newXEncoder()
		e.SetMaxDynamicTableSizeLimit(65536)
		e.SetMaxDynamicTableSize(65536)
		bomb := e.block(nv{name: "bomb", value: strings.Repeat("z", size)})
		bomb = append(bomb, bytes.Repeat([]byte{0x80 | 62}, 100_000)...)
		bomb = append(bomb, e.block(nv{name: "late", value: "indexed"}, nv{name: "later", value: "also"})...)

		const maxList = 128 << 10
		var l hpack.List
		if err := d.Decode(bomb, &l, maxList); !errors.Is(err, hpack.ErrListTooLong) {
			t.Fatalf("got %v", err)
		}
		if want := maxList / (size + 36); len(l.Fields) != want {
			t.Errorf("kept %d fields, want %d", len(l.Fields), want)
		}
		l.Reset()
		if err := d.Decode(e.block(nv{name: "late", value: "indexed"}, nv{name: "later", value: "also"}), &l,
			maxList); err != nil {
			t.Fatal(err)
		}
		if want := []nv{{name: "late", value: "indexed"}, {name: "later", value: "also"}}; !slices.Equal(fieldsOf(&l),
			want) {
			t.Errorf("got %v", fieldsOf(&l))
		}
	}
}

// TestNamesOfListsTooLong: the decoder does not copy a long name of the table for each literal that refers to it once
// the list is full.
func TestNamesOfListsTooLong(t *testing.T) {
	t.Parallel()
	const maxList = 64 << 10
	name := strings.Repeat("n", 4000)
	block := append([]byte{0x40, 0x7f, 0xa1, 0x1e}, name...)                 // with indexing: a name of 4,000 bytes
	block = append(block, 0x00)                                              // and an empty value
	block = append(block, bytes.Repeat([]byte{0x0f, 0x2f, 0x00}, 10_000)...) // without indexing: the same name
	var l hpack.List
	err := hpack.NewDecoder(hpack.NewInterner(nil), 4096).Decode(block, &l, maxList)
	if !errors.Is(err, hpack.ErrListTooLong) || len(l.Fields) != maxList/(4000+32) || l.Fields[1].Name != name {
		t.Errorf("%d fields, %v", len(l.Fields), err)
	}
	if size := l.Size(); size > maxList {
		t.Errorf("the list takes %d bytes", size)
	}
}

func TestListLimitIsExact(t *testing.T) {
	t.Parallel()
	block := []byte{0x82, 0x00, 0x01, 'n', 0x03, 'v', 'v', 'v'} // :method GET (42), n vvv (36)
	for maxList, want := range map[int]error{78: nil, 77: hpack.ErrListTooLong, 41: hpack.ErrListTooLong,
		0: hpack.ErrListTooLong} {
		var l hpack.List
		if err := hpack.NewDecoder(hpack.NewInterner(nil), 4096).Decode(block, &l, maxList); !errors.Is(err, want) {
			t.Errorf("%d: got %v, want %v", maxList, err, want)
		}
	}
	// A coding error takes precedence over a list that is too long.
	var l hpack.List
	err := hpack.NewDecoder(hpack.NewInterner(nil), 4096).Decode([]byte{0x82, 0x82, 0x80}, &l, 10)
	if !errors.Is(err, hpack.ErrIndex) {
		t.Errorf("got %v", err)
	}
}

func TestDecoderSetMaxTable(t *testing.T) {
	t.Parallel()
	get := []byte{0x82}
	update := func(n byte) []byte { return []byte{0x20 | n, 0x82} } // n < 31
	cases := []struct {
		name  string
		limit []uint32
		block []byte
		want  error
	}{
		{"lowered, obeyed", []uint32{20}, update(20), nil},
		{"lowered, more than obeyed", []uint32{20}, update(0), nil},
		{"lowered, ignored", []uint32{20}, get, hpack.ErrTableSize},
		{"lowered, ignored by an empty block", []uint32{20}, nil, hpack.ErrTableSize},
		{"lowered, not enough", []uint32{20}, update(21), hpack.ErrTableSize},
		{"lowered and raised", []uint32{20, 4096}, []byte{0x20 | 20, 0x3f, 0xe1, 0x1f, 0x82}, nil},
		{"raised, not used", []uint32{8192}, get, nil},
		{"raised, used", []uint32{8192}, []byte{0x3f, 0xe1, 0x3f, 0x82}, nil},
		{"raised, passed", []uint32{8192}, []byte{0x3f, 0xe2, 0x3f, 0x82}, hpack.ErrTableSize},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := hpack.NewDecoder(hpack.NewInterner(nil), 4096)
			for _, n := range c.limit {
				d.SetMaxTable(n)
			}
			var l hpack.List
			if err := d.Decode(c.block, &l, roomy); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
