package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestSkipPlain compares it with a look at each byte: with every byte at every place of some words, beside bytes whose
// borrows could disturb those above them.
func TestSkipPlain(t *testing.T) {
	t.Parallel()
	for _, filler := range []byte{'x', ' ', '!', '#', '[', ']', 0x7f, 0x80, 0xa0, 0xa2, 0xdc, 0xff} {
		for _, length := range []int{0, 1, 7, 8, 9, 16, 27} {
			for c := range 256 {
				for at := range length {
					text := bytes.Repeat([]byte{filler}, length)
					text[at] = byte(c)
					if at+1 < length {
						text[at+1] = byte(c) + 1
					}
					for from := range length {
						want := from
						for want < length && !special[text[want]] {
							want++
						}
						if got := skipPlain(text, from); got != want {
							t.Fatalf("%q from %d: %d, want %d", text, from, got, want)
						}
					}
				}
			}
		}
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	every := make([]byte, 0, 512)
	for c := range 256 {
		every = append(every, byte(c), 'x')
	}
	const before = "before "
	for _, text := range []string{"", "plain", `"\`, "a long text with\nlines\tand\rmore \x00\x1f", "ü€😀\u2028",
		"\xff", "a\xc3", string(every)} {
		got := bytes.TrimPrefix(AppendString([]byte(before), []byte(text)), []byte(before))
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(text, "\ufffd") {
			t.Errorf("%q became %s: %q, %v", text, got, back, err)
		}
		if err := Check(got); err != nil {
			t.Errorf("%q became %s: %v", text, got, err)
		}
	}
}
