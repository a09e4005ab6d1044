package policy

import (
	"encoding/binary"

	"github.com/capgate/capgate/internal/call"
)

// Key is the cache key: the caller and the tool.
type Key struct {
	Subject
	Capability, Tool string
}

func keyOf(c *call.Call) Key { return Key{Subject{c.Tenant, c.User, c.Agent}, c.Capability, c.Tool} }

// keyRoom is the usual bound of a key's bytes; a longer one costs an allocation.
const keyRoom = 256

// append appends an unambiguous encoding of the key: its strings, the tenant first, each after its
// length.
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

// parseKey parses a key that append has written. The strings share the memory of text.
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
