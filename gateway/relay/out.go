package relay

// copyBelow is the size below which bytes are copied into a connection's output instead of being referenced: an iovec
// costs about as much as the copy.
const copyBelow = 2 << 10

// output is the pending output of a connection: its own bytes, and between them references to bytes in a read buffer.
// The references are invalid once that buffer is reused, so flush leaves none.
type output struct {
	buf  []byte
	refs []ref
	size int // total bytes
	data int // upper bound of the bytes in DATA frames
}

// ref is positioned before buf[at].
type ref struct {
	at int
	p  []byte
}

// refer appends b without copying it.
func (o *output) refer(b []byte) {
	o.size += len(b)
	o.data += len(b)
	if n := len(o.refs); n > 0 && o.refs[n-1].at == len(o.buf) {
		last := &o.refs[n-1]
		// Adjacent frames in the read buffer are one piece.
		if end := len(last.p); cap(last.p) > end && &last.p[:end+1][end] == &b[0] {
			last.p = last.p[:end+len(b)]
			return
		}
	}
	o.refs = append(o.refs, ref{len(o.buf), b})
}

// pieces appends the output's bytes in order to iov.
func (o *output) pieces(iov [][]byte) [][]byte {
	at := 0
	for _, r := range o.refs {
		if r.at > at {
			iov = append(iov, o.buf[at:r.at])
			at = r.at
		}
		iov = append(iov, r.p)
	}
	if len(o.buf) > at {
		iov = append(iov, o.buf[at:])
	}
	return iov
}

// wrote drops the first n bytes and copies the rest into its own buffer.
func (o *output) wrote(p *bufferPool, n int, iov [][]byte) {
	rest := o.size - n
	if rest == 0 {
		p.put(o.buf)
		o.buf = nil
	} else {
		left := p.get(rest)
		for _, piece := range iov {
			if n >= len(piece) {
				n -= len(piece)
				continue
			}
			left = append(left, piece[n:]...)
			n = 0
		}
		p.put(o.buf)
		o.buf = left
	}
	clear(o.refs)
	o.refs, o.size, o.data = o.refs[:0], rest, min(o.data, rest)
}
