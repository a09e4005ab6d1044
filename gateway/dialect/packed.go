package dialect

import (
	"bytes"
	"compress/gzip"
	"sync"
)

// Limits of messages that are decompressed on a connection's reader.
const (
	maxPacked   = 16 << 10  // bytes of a message; longer ones are not searched
	maxUnpacked = 256 << 10 // bytes of the decompressed start that is searched
)

// pack collects the next piece of a compressed message, and processes its payload after the last piece. ms may be nil.
func (ms *Mentions) pack(p []byte, last bool) {
	if ms == nil || !ms.unpacks {
		return
	}
	if ms.packed = append(ms.packed, p[:min(len(p), maxPacked+1-len(ms.packed))]...); last {
		if len(ms.packed) <= maxPacked {
			ms.unpack()
		}
		ms.packed = nil
	}
}

// unpackers pools gzip readers. Each has a window of 32 KiB.
var unpackers = sync.Pool{New: func() any { return new(unpacker) }}

type unpacker struct {
	in   bytes.Reader
	gzip gzip.Reader
	out  [4 << 10]byte
}

func (ms *Mentions) unpack() {
	u := unpackers.Get().(*unpacker)
	defer unpackers.Put(u)
	u.in.Reset(ms.packed)
	if u.gzip.Reset(&u.in) != nil {
		return
	}
	var field fieldReader
	for left := maxUnpacked; left > 0; {
		n, err := u.gzip.Read(u.out[:min(len(u.out), left)])
		if !field.read(u.out[:n], shape{}, ms) || err != nil {
			return
		}
		left -= n
	}
}
