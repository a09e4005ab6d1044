package policy

import (
	"encoding/binary"

	"github.com/capgate/capgate/internal/call"
)

// Key is what a ruling is kept under: whose call, and of what.
type Key struct {
	Subject
	Capability, Tool string
}

func keyOf(c *call.Call) Key { return Key{Subject{c.Tenant, c.User, c.Agent}, c.Capability, c.Tool} }

// keyRoom is how many bytes a key has as a rule; a longer one costs an allocation.
const keyRoom = 256

// append appends the key in one piece, in which no two keys look the same: its words, the
// tenant first, each behind its length.
func (k *Key) append(b []byte) []byte {
	b = appendWord(b, k.Tenant)
	b = appendWord(b, k.User)
	b = appendWord(b, k.Agent)
	b = appendWord(b, k.Capability)
	return appendWord(b, k.Tool)
}

func appendWord(b []byte, word string) []byte {
	if len(word) < 0x80 {
		return append(append(b, byte(len(word))), word...)
	}
	return append(binary.AppendUvarint(b, uint64(len(word))), word...)
}

// parseKey is the reverse of append. The words are parts of text.
func parseKey(text string) (k Key) {
	for _, word := range []*string{&k.Tenant, &k.User, &k.Agent, &k.Capability, &k.Tool} {
		*word, text = cutWord(text)
	}
	return k
}

func cutWord(text string) (word, rest string) {
	n, size := uint64(0), 0
	for {
		b := text[size]
		n |= uint64(b&0x7f) << (7 * size)
		size++
		if b < 0x80 {
			return text[size:][:n], text[size:][n:]
		}
	}
}
