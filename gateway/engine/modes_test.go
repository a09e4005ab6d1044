package engine

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/testkit/check"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// TestModes in all four combinations: an OTR session never becomes a recorded one.
func TestModes(t *testing.T) {
	const none = -1
	for _, test := range []struct {
		from, to Numbering
		numbers  [6]int // the new numbers of 0 to 5
	}{
		{BySource, BySource, [6]int{0, 1, 2, 3, none, none}},
		{BySource, BySeed, [6]int{0, 0, 1, 3, none, none}},
		{BySeed, BySource, [6]int{1, 2, none, 3, none, none}},
		{BySeed, BySeed, [6]int{0, 1, none, 3, none, none}},
	} {
		for was, want := range test.numbers {
			m := &parallaxpb.ClientMessageRequest{Content: "c", SessionId: "s", Mode: parallaxpb.SessionMode(was),
				Source: "cli"}
			msg, err := proto.Marshal(m)
			check.Must(t, err)
			unknown := protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "unknown")
			msg = append(msg, unknown...)
			got, ok := renumber(msg, &messageRequest, test.from, test.to)
			if ok != (want != none) {
				t.Errorf("%v to %v: %d: %v", test.from, test.to, was, ok)
				continue
			}
			if !ok {
				continue
			}
			if want == was && !bytes.Equal(got, msg) {
				t.Errorf("%v to %v: %d: other bytes", test.from, test.to, was)
			}
			var is parallaxpb.ClientMessageRequest
			if err := proto.Unmarshal(got, &is); err != nil || int(is.GetMode()) != want ||
				!bytes.Equal(is.ProtoReflect().GetUnknown(), unknown) {
				t.Errorf("%v to %v: %d: %v, %v", test.from, test.to, was, &is, err)
			}
			m.Mode = parallaxpb.SessionMode(want)
			is.ProtoReflect().SetUnknown(nil)
			if !proto.Equal(m, &is) {
				t.Errorf("%v to %v: %d: %v", test.from, test.to, was, &is)
			}
		}
	}
	for _, bad := range [][]byte{{0xff}, {3 << 3, 0x80}, {2<<3 | 2, 9, 'x'}} {
		if _, ok := renumber(bad, &messageRequest, BySeed, BySource); ok {
			t.Errorf("%x is a message", bad)
		}
	}
	for name, bad := range map[string][]byte{"twice": {3 << 3, 2, 3 << 3, 1}, "long": {3 << 3, 0x82, 0},
		"as text": {3<<3 | 2, 1, 2}} {
		if _, ok := renumber(bad, &messageRequest, BySource, BySeed); ok {
			t.Errorf("a mode %s: it is renumbered", name)
		}
	}
}

// FuzzRenumber compares renumber with a protobuf decoder.
func FuzzRenumber(f *testing.F) {
	f.Add([]byte{3 << 3, 2}, true)
	f.Add([]byte{1<<3 | 2, 1, 'x', 3 << 3, 0x81, 0}, false)
	f.Fuzz(func(t *testing.T, msg []byte, up bool) {
		from, to := BySource, BySeed
		if up {
			from, to = to, from
		}
		got, ok := renumber(msg, &messageRequest, from, to)
		if !ok {
			return
		}
		var was, is parallaxpb.ClientMessageRequest
		if err := proto.Unmarshal(msg, &was); err != nil {
			t.Fatalf("%x is renumbered: %v", msg, err)
		}
		if err := proto.Unmarshal(got, &is); err != nil {
			t.Fatalf("%x became %x: %v", msg, got, err)
		}
		unsentReasons, _ := modeOf(uint64(was.GetMode()), from)
		after, _ := modeOf(uint64(is.GetMode()), to)
		if (unsentReasons == otr) != (after == otr) {
			t.Fatalf("%v became %v", &was, &is)
		}
		was.Mode, is.Mode = 0, 0
		if !proto.Equal(&was, &is) {
			t.Fatalf("%v became %v", &was, &is)
		}
	})
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte{19<<3&0x7f | 2 | 0x80, 1, 3, 1<<3 | 2, 1, 'q'})
	f.Fuzz(func(_ *testing.T, raw []byte) { eventOf(raw) })
}
