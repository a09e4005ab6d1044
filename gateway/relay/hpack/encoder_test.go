package hpack_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	xnet "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

func encodeBlock(e *hpack.Encoder, fields ...hpack.Field) string {
	b := e.Begin(nil)
	for i := range fields {
		b = e.Encode(b, &fields[i])
	}
	return string(b)
}

func TestEncodeRepresentations(t *testing.T) {
	t.Parallel()
	in := hpack.NewInterner(nil)
	secret := in.Intern("authorization", "k")
	secret.Sensitive = true
	var l hpack.List
	l.Append(":path", "/p", 0)
	l.Append("x-own", "", 0)
	long := strings.Repeat("l", 300)
	cases := []struct {
		name  string
		field hpack.Field
		want  string
	}{
		{"static", in.Intern(":method", "POST"), "\x83"},
		{"interned", in.Intern("x-a", "b"), "\x40\x03x-a\x01b"},
		{"interned, static name", in.Intern(":path", "/p"), "\x44\x02/p"},
		{"not interned", hpack.Field{Name: "x-a", Value: "b"}, "\x00\x03x-a\x01b"},
		{"not interned, static name", l.Fields[0], "\x04\x02/p"},
		{"not interned, no value", l.Fields[1], "\x00\x05x-own\x00"},
		{"sensitive", hpack.Field{Name: "x-a", Value: "b", Sensitive: true}, "\x10\x03x-a\x01b"},
		{"sensitive, static name above 15", secret, "\x1f\x08\x01k"},
		{"long value", hpack.Field{Name: "x", Value: long}, "\x00\x01x\x7f\xad\x01" + long},
		{"too long for the table", in.Intern("x", strings.Repeat("l", 4090)), "\x00\x01x\x7f\xfb\x1e" +
			strings.Repeat("l", 4090)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := encodeBlock(hpack.NewEncoder(), c.field); got != c.want {
				t.Errorf("got %x, want %x", got, c.want)
			}
		})
	}
}

// TestEncodeChangedFields changes fields that the encoder has stored by pointer or by the index of their name. The
// encoder must send the new values.
func TestEncodeChangedFields(t *testing.T) {
	t.Parallel()
	in := hpack.NewInterner(nil)
	change := func(f hpack.Field, name, value string) hpack.Field {
		f.Name, f.Value = name, value
		return f
	}
	var l hpack.List
	l.Append(":path", "/old", 0)
	e := hpack.NewEncoder()
	encodeBlock(e, in.Intern("x-a", "b"), in.Intern(":authority", "old"))
	cases := []struct {
		name  string
		field hpack.Field
		want  string
	}{
		{"unchanged", in.Intern("x-a", "b"), "\xbf"},
		{"value", change(in.Intern("x-a", "b"), "x-a", "c"), "\x00\x03x-a\x01c"},
		{"value's length", change(in.Intern("x-a", "b"), "x-a", ""), "\x00\x03x-a\x00"},
		{"name", change(in.Intern("x-a", "b"), "x-b", "b"), "\x00\x03x-b\x01b"},
		{"static value", change(in.Intern(":method", "GET"), ":method", "PUT"), "\x02\x03PUT"},
		{"static name", change(in.Intern(":method", "GET"), ":m", "GET"), "\x00\x02:m\x03GET"},
		{"value of a static name", change(in.Intern(":authority", "old"), ":authority", "new"), "\x01\x03new"},
		{"not interned", change(l.Fields[0], ":path", "/new"), "\x04\x04/new"},
		{"name, not interned", change(l.Fields[0], "x-path", "/old"), "\x00\x06x-path\x04/old"},
	}
	for _, c := range cases {
		if got := encodeBlock(e, c.field); got != c.want {
			t.Errorf("%s: got %x, want %x", c.name, got, c.want)
		}
	}
}

func TestEncodeString(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, value, want string }{
		{":status", "200", "\x88"},
		{":status", "404", "\x8d"},
		{":status", "418", "\x08\x03418"},
		{":method", "GET", "\x82"},
		{"www-authenticate", "", "\xbd"},
		{"content-type", "a/b", "\x0f\x10\x03a/b"},
		{"grpc-status", "14", "\x00\x0bgrpc-status\x0214"},
		{"", "", "\x00\x00\x00"},
	}
	for _, c := range cases {
		t.Run(c.name+":"+c.value, func(t *testing.T) {
			t.Parallel()
			if got := hpack.NewEncoder().EncodeString(nil, c.name, c.value); string(got) != c.want {
				t.Errorf("got %x, want %x", got, c.want)
			}
		})
	}
}

// TestStaticTable decodes each static entry, as the encoder writes it, with x/net.
func TestStaticTable(t *testing.T) {
	t.Parallel()
	for i := byte(1); i <= 61; i++ {
		x, err := xnet.NewDecoder(4096, nil).DecodeFull([]byte{0x80 | i})
		check.Must(t, err)
		got := hpack.NewEncoder().EncodeString(nil, x[0].Name, x[0].Value)
		if !bytes.Equal(got, []byte{0x80 | i}) {
			t.Errorf("%s: %s is encoded as %x, want index %d", x[0].Name, x[0].Value, got, i)
		}
		var l hpack.List
		check.Must(t, hpack.NewDecoder(hpack.NewInterner(nil), 4096).Decode(got, &l, roomy))
		if got := fieldsOf(&l); !slices.Equal(got, fieldsOfX(x)) {
			t.Errorf("index %d: got %v, want %v", i, got, x)
		}
	}
}

// TestEncoderTableSize checks the table size updates at the beginning of a block.
func TestEncoderTableSize(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		used  bool // the table holds a field of 35 bytes
		sizes []uint32
		want  string
	}{
		{"nothing", true, nil, ""},
		{"what it was", true, []uint32{4096}, ""},
		{"more than we use", true, []uint32{65536}, ""},
		{"lower, fields stay", true, []uint32{40}, "\x3f\x09"},
		{"lower than the fields", true, []uint32{20}, "\x20\x34"},
		{"lower, no fields", false, []uint32{20}, "\x34"},
		{"none", true, []uint32{0}, "\x20"},
		{"lower and back, no fields", false, []uint32{100, 4096}, "\x3f\x45\x3f\xe1\x1f"},
		{"lower and back", true, []uint32{100, 4096}, "\x20\x3f\xe1\x1f"},
		{"lower, lowest, higher", false, []uint32{100, 20, 40}, "\x34\x3f\x09"},
		{"higher and back", true, []uint32{65536, 4096}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := hpack.NewEncoder()
			if c.used {
				encodeBlock(e, hpack.NewInterner(nil).Intern("a", "bc"))
			}
			for _, n := range c.sizes {
				e.SetMaxTable(n)
			}
			if got := string(e.Begin(nil)); got != c.want {
				t.Errorf("got %x, want %x", got, c.want)
			}
			if again := e.Begin(nil); len(again) != 0 {
				t.Errorf("updated again: %x", again)
			}
		})
	}
	t.Run("raised after having been lowered", func(t *testing.T) {
		t.Parallel()
		e := hpack.NewEncoder()
		e.SetMaxTable(40)
		e.Begin(nil)
		f := hpack.NewInterner(nil).Intern("a", "bc")
		encodeBlock(e, f)
		e.SetMaxTable(60)
		e.SetMaxTable(80)
		if got, want := encodeBlock(e, f), "\x3f\x31\xbe"; got != want {
			t.Errorf("got %x, want %x", got, want)
		}
	})
}

// TestEncoderAdapts fills the table and then changes which fields are popular.
func TestEncoderAdapts(t *testing.T) {
	t.Parallel()
	in := hpack.NewInterner(nil)
	e := hpack.NewEncoder()
	x := xnet.NewDecoder(4096, nil)
	send := func(age string) int {
		total := 0
		for i := range 60 {
			f := in.Intern("x-popular-"+age, fmt.Sprint(i))
			block := encodeBlock(e, f)
			got, err := x.DecodeFull([]byte(block))
			check.Must(t, err)
			if len(got) != 1 || got[0].Name != f.Name || got[0].Value != f.Value {
				t.Fatalf("got %v, want %s: %s", got, f.Name, f.Value)
			}
			total += len(block)
		}
		return total
	}
	for _, age := range []string{"one", "two", "three"} {
		for range 10 {
			send(age)
		}
		if n := send(age); n > 2*60 {
			t.Errorf("age %s: a field takes %d bytes after 10 rounds", age, n/60)
		}
	}
}

// TestEncoderDoesNotThrash sends more popular fields than the table can hold, and counts how often the table is
// rebuilt.
func TestEncoderDoesNotThrash(t *testing.T) {
	t.Parallel()
	in := hpack.NewInterner(nil)
	e := hpack.NewEncoder()
	restarts, literals := 0, 0
	for i := range 100_000 {
		b := e.Begin(nil)
		if len(b) > 0 {
			restarts++
		}
		f := in.Intern("x-many", fmt.Sprint(i%1000))
		if b = e.Encode(b, &f); len(b) > 4 {
			literals++
		}
	}
	if restarts == 0 || restarts > literals/256 {
		t.Errorf("%d restarts in %d literals", restarts, literals)
	}
}

// TestEncoderIndexesAll: each field of the table is sent by its index, however many there are.
func TestEncoderIndexesAll(t *testing.T) {
	t.Parallel()
	in, e := hpack.NewInterner(nil), hpack.NewEncoder()
	fields := make([]hpack.Field, 4096/34) // of 34 bytes
	for i := range fields {
		fields[i] = in.Intern(string(rune('A'+i/64)), string(rune(' '+i%64)))
		encodeBlock(e, fields[i])
		for j := range i + 1 {
			if got := encodeBlock(e, fields[j]); len(got) > 2 || got[0]&0x80 == 0 {
				t.Fatalf("field %d of %d is sent as %x", j, i+1, got)
			}
		}
	}
}
