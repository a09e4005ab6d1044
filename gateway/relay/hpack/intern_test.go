package hpack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestListOutlivesDecoder keeps lists while the decoder goes on, its table is overwritten, and its interner forgets
// everything.
func TestListOutlivesDecoder(t *testing.T) {
	t.Parallel()
	d := hpack.NewDecoder(hpack.NewInterner(nil), 4096)
	e := newXEncoder()
	lists := make([]hpack.List, 3000)
	want := make([][]nv, len(lists))
	for i := range lists {
		n := i / 2 // the blocks of a pair are equal: the second refers to the entries of the first
		want[i] = append(request(n), nv{name: "x-pair", value: fmt.Sprint(n, strings.Repeat("p", n%900))})
		check.Must(t, d.Decode(e.block(want[i]...), &lists[i], roomy))
	}
	for i := range lists {
		if got := fieldsOf(&lists[i]); !slices.Equal(got, want[i]) {
			t.Fatalf("list %d has changed:\n got %v\nwant %v", i, got, want[i])
		}
	}
}

// TestInternedFieldsAreCopied interns fields of the table and then overwrites the table.
func TestInternedFieldsAreCopied(t *testing.T) {
	t.Parallel()
	for _, f := range []nv{{name: "grpc-message"}, {value: "nameless"}, {name: "x-both", value: "there"}, {}} {
		d := hpack.NewDecoder(hpack.NewInterner(nil), 4096)
		e := newXEncoder()
		var l hpack.List
		for i := range 1000 {
			l.Reset()
			want := []nv{{name: "x-varies", value: fmt.Sprint("overwrites", i)}}
			if i >= 200 { // the table's buffer no longer grows
				want = append(want, f, f)
			}
			check.Must(t, d.Decode(e.block(want...), &l, roomy))
			if got := fieldsOf(&l); !slices.Equal(got, want) {
				t.Fatalf("block %d: got %v, want %v", i, got, want)
			}
		}
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	calls := map[string]int{}
	in := hpack.NewInterner(func(name, value string) uint32 {
		calls[strings.Clone(name)]++
		return uint32(len(name)*1000 + len(value))
	})
	d := hpack.NewDecoder(in, 4096)
	e := newXEncoder()
	e.SetMaxDynamicTableSizeLimit(1 << 16)
	big := strings.Repeat("b", 3900)
	for i := range 5 {
		var l hpack.List
		block := e.block(nv{name: ":method", value: "POST"}, nv{name: "x-stable", value: "yes"},
			nv{name: "x-varies", value: strings.Repeat("v", i)}, nv{name: "x-secret", value: "s", sensitive: true})
		check.Must(t, d.Decode(block, &l, roomy))
		l.Append("x-own", big, 77)
		for _, f := range l.Fields[:4] {
			if f.Tag != uint32(len(f.Name)*1000+len(f.Value)) {
				t.Errorf("block %d: %s: %s has tag %d", i, f.Name, f.Value, f.Tag)
			}
		}
		if own := l.Fields[4]; own.Tag != 77 || own.Value != big {
			t.Errorf("appended field came out as %q", own.Name)
		}
	}
	// x-stable is classified as a literal and when it is interned; :method has two static entries.
	for name, want := range map[string]int{"x-stable": 2, "x-varies": 5, "x-secret": 5, ":method": 2} {
		if calls[name] != want {
			t.Errorf("%s was classified %d times, want %d", name, calls[name], want)
		}
	}
}

func TestIntern(t *testing.T) {
	t.Parallel()
	in := hpack.NewInterner(nil)
	buf := []byte("x-namevalue")
	f := in.Intern(unsafe.String(&buf[0], 6), unsafe.String(&buf[6], 5))
	copy(buf, "garbagegarbage")
	if f.Name != "x-name" || f.Value != "value" {
		t.Errorf("Intern kept its arguments: %q", f.Name+f.Value)
	}
	if g := in.Intern("x-name", "value"); g != f {
		t.Error("the same field was interned twice")
	}
	if g := in.Intern("x-nam", "evalue"); g.Name != "x-nam" || g.Value != "evalue" {
		t.Errorf("another split of the same bytes came out as %q", g.Name)
	}
	long := strings.Repeat("l", 10_000)
	if g := in.Intern("x-long", long); g.Value != long {
		t.Error("a long field came out changed")
	}
	// The interner is filled several times: it forgets its fields, but those that it has returned stay valid.
	for i := range 20_000 {
		if g := in.Intern("x-fill", fmt.Sprint(i)); g.Value != fmt.Sprint(i) {
			t.Fatalf("got %q", g.Value)
		}
	}
	if f.Name != "x-name" || f.Value != "value" {
		t.Errorf("a field changed when the interner was full; f %+v", f)
	}
	if got, want := encodeBlock(hpack.NewEncoder(), in.Intern(":status", "200")), "\x88"; got != want {
		t.Errorf("a static field is encoded as %q", got)
	}
}

// TestInternerKeepsStaticFields fills an interner with bytes rather than with many fields.
func TestInternerKeepsStaticFields(t *testing.T) {
	t.Parallel()
	in := hpack.NewInterner(nil)
	before := in.Intern(":method", "POST")
	for i := range 500 {
		in.Intern("x-fill", fmt.Sprint(i, strings.Repeat("f", 4000)))
	}
	if in.Intern(":method", "POST") != before {
		t.Error("a static field is not the same after the interner was full")
	}
}

// TestInternerForgets: an interner does not grow without bound for a peer that sends ever new fields.
func TestInternerForgets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ fields, size int }{
		"many":  {4096, 10},
		"large": {1 << 20 / 4000, 4000},
	} {
		in := hpack.NewInterner(nil)
		first := in.Intern("x-first", "1")
		for i := range test.fields {
			in.Intern("x-fill", fmt.Sprintf("%0*d", test.size, i))
		}
		if in.Intern("x-first", "1") == first {
			t.Errorf("%s: a field is known after %d others of %d bytes", name, test.fields, test.size)
		}
	}
}

func TestListReset(t *testing.T) {
	t.Parallel()
	var l hpack.List
	for i := range 3 {
		for j := range 500 {
			l.Append(":path", fmt.Sprint("/", i, j, strings.Repeat("p", j)), 0)
		}
		for j := range l.Fields {
			if want := fmt.Sprint("/", i, j, strings.Repeat("p", j)); l.Fields[j].Value != want {
				t.Fatalf("field %d is %q, want %q", j, l.Fields[j].Value, want)
			}
		}
		l.Reset()
		if len(l.Fields) != 0 || cap(l.Fields) > 64 {
			t.Errorf("a reset list has %d fields and room for %d", len(l.Fields), cap(l.Fields))
		}
	}
}

// TestSteadyStateDoesNotAllocate decodes and encodes a grpc-go request as a relay does, with two fields that change
// each time. It is not parallel, because AllocsPerRun counts the allocations of the whole process.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	in := hpack.NewInterner(classify)
	d := hpack.NewDecoder(in, 4096)
	e := hpack.NewEncoder()
	blocks := trace(2000, request)
	var l hpack.List
	buf := make([]byte, 0, 1024)
	next := 0
	call := func() {
		l.Reset()
		check.Must(t, d.Decode(blocks[next%len(blocks)], &l, roomy))
		next++
		l.Append("x-forwarded-for", "10.0.0.7", 0)
		buf = e.Begin(buf[:0])
		for i := range l.Fields {
			buf = e.Encode(buf, &l.Fields[i])
		}
		buf = e.EncodeString(buf, "grpc-status", "14")
	}
	for range len(blocks) { // until all popular fields are interned
		call()
	}
	if n := testing.AllocsPerRun(len(blocks)-1, call); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
