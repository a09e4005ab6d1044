package strictjson

import (
	"bytes"
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
