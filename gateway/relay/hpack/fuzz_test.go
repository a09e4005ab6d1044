package hpack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// split cuts data into blocks, each preceded by its length in one byte.
func split(data []byte) [][]byte {
	var blocks [][]byte
	for len(data) > 0 && len(blocks) < 64 {
		n := min(int(data[0]), len(data)-1)
		blocks = append(blocks, data[1:1+n])
		data = data[1+n:]
	}
	return blocks
}

func join(blocks ...[]byte) []byte {
	var data []byte
	for _, b := range blocks {
		b = b[:min(len(b), 255)]
		data = append(append(data, byte(len(b))), b...)
	}
	return data
}

// rulesDiffer reports whether the decoders differ only where the RFC is read differently: x/net allows a size update
// after fields if the table is empty, forbids a second one if it is not, and allows integers of ten octets.
func rulesDiffer(ours, x error) bool {
	switch {
	case ours == nil:
		return x != nil && strings.Contains(x.Error(), "MUST occur at the beginning")
	case x == nil:
		return errors.Is(ours, hpack.ErrTableSize) || errors.Is(ours, hpack.ErrInteger)
	}
	return false
}

func FuzzDecode(f *testing.F) {
	for _, s := range rfcAppendixC {
		var blocks [][]byte
		for _, b := range s.blocks {
			blocks = append(blocks, unhex(f, b))
		}
		f.Add(uint16(s.table), join(blocks...))
	}
	e := newXEncoder()
	f.Add(uint16(4096), join(e.block(request(0)...), e.block(request(1)...), e.block(responseHeaders...),
		e.block(responseTrailers...)))
	f.Add(uint16(100), []byte("\x06\x40\x01a\x01b\xbe\x01\xbe\x03\x7e\x01c\x02\xbe\xbf\x04\x3f\x01\x20\xbe"))
	f.Add(uint16(0), []byte("\x02\x20\x20\x05\x40\x00\x82\xff\xff"))
	f.Fuzz(func(t *testing.T, table uint16, data []byte) {
		in := hpack.NewInterner(nil)
		d := hpack.NewDecoder(in, uint32(table))
		small := hpack.NewDecoder(in, uint32(table)) // stores few entries, and must still agree with the others
		x := xnet.NewDecoder(uint32(table), nil)
		var lists []*hpack.List
		var want [][]nv
		for i, block := range split(data) {
			l := new(hpack.List)
			xf, xerr := x.DecodeFull(block)
			err := d.Decode(block, l, roomy)
			if (err != nil) != (xerr != nil) && !rulesDiffer(err, xerr) {
				t.Fatalf("block %d: %v; x/net: %v", i, err, xerr)
			}
			var short hpack.List
			if serr := small.Decode(block, &short, 100); serr != err &&
				(err != nil || !errors.Is(serr, hpack.ErrListTooLong)) {
				t.Fatalf("block %d: %v; with a short list: %v", i, err, serr)
			}
			if err != nil || xerr != nil {
				break
			}
			lists, want = append(lists, l), append(want, fieldsOfX(xf))
			if n := len(short.Fields); !slices.Equal(fieldsOf(&short), want[i][:n]) {
				t.Fatalf("block %d: short list %v of %v", i, fieldsOf(&short), want[i])
			}
		}
		for i, l := range lists {
			if got := fieldsOf(l); !slices.Equal(got, want[i]) {
				t.Fatalf("block %d:\n got %v\nwant %v", i, got, want[i])
			}
		}
	})
}

// FuzzRoundTrip takes fields, block ends and changes of the peer's table size from the input. The decoders of x/net and
// of this package must both follow. The latter requires size updates.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x84\x85\xff\x00\x01\x02\xfe\x10\x00\x01\xff\xfe\x00\xfe\xff\x01"))
	f.Add([]byte("\xfe\x02\x00\x01\x02\x03\x04\x05\xff\xfe\x01\x00\x01\xff\xfe\x01\xfe\x40\x00\x01\x02\xff"))
	var many []byte
	for i := range 2000 {
		many = append(many, byte(i%97), byte(i%13)|0x80, 0xff)
	}
	f.Add(many)
	f.Fuzz(func(t *testing.T, ops []byte) {
		in := hpack.NewInterner(nil)
		e := hpack.NewEncoder()
		x := xnet.NewDecoder(4096, nil)
		d := hpack.NewDecoder(hpack.NewInterner(nil), 4096)
		var sent []hpack.Field
		flush := func() {
			block := e.Begin(nil)
			var want []nv
			for i := range sent {
				block = e.Encode(block, &sent[i])
				want = append(want, nv{sent[i].Name, sent[i].Value, sent[i].Sensitive})
			}
			sent = nil
			got, err := x.DecodeFull(block)
			if err != nil || !slices.Equal(fieldsOfX(got), want) {
				t.Fatalf("x/net: %v\n got %v\nwant %v\nblock %x", err, got, want, block)
			}
			var l hpack.List
			if err := d.Decode(block, &l, 1<<30); err != nil || !slices.Equal(fieldsOf(&l), want) {
				t.Fatalf("ours: %v\n got %v\nwant %v\nblock %x", err, fieldsOf(&l), want, block)
			}
		}
		for i := 0; i < len(ops); i++ {
			switch op := ops[i]; {
			case op == 0xff:
				flush()
			case op == 0xfe && i+1 < len(ops):
				i++
				n := uint32(ops[i]) * 33
				e.SetMaxTable(n)
				x.SetAllowedMaxDynamicTableSize(n)
				d.SetMaxTable(n)
			default:
				sent = append(sent, poolField(in, op))
			}
		}
		flush()
	})
}

// poolField is one of 128 fields of all kinds, interned or not.
func poolField(in *hpack.Interner, op byte) hpack.Field {
	name := [...]string{":path", ":method", "x-a", "authorization", "grpc-status", "x-longer-name", ":status", ""}[op%8]
	value := strings.Repeat(string('a'+rune(op%26)), int(op>>3&7)*int(op>>3&7)*9)
	if op%16 == 1 {
		value = "POST"
	}
	if op&0x40 != 0 {
		return hpack.Field{Name: name, Value: value, Sensitive: op&0x80 != 0}
	}
	f := in.Intern(name, value)
	f.Sensitive = op&0xa0 == 0xa0
	return f
}
