package relay

import "math/bits"

// bufferPool recycles a shard's byte buffers by size class, so that a busy shard does not allocate, and an idle stream
// or connection holds no buffer.
type bufferPool struct {
	most int // maximum bytes of unused buffers
	kept int
	free [bufferClasses][][]byte
}

// The classes are powers of two, so that at most half of a buffer is unused, and one class for the longest message.
const (
	leastClass    = 9 // 512 bytes
	bufferClasses = 17
	longestBuffer = 17 << 20
)

func classSize(i int) int {
	if i == bufferClasses-1 {
		return longestBuffer
	}
	return 1 << (leastClass + i)
}

// get returns an empty buffer with room for at least n bytes.
func (p *bufferPool) get(n int) []byte {
	i := max(bits.Len(uint(max(n, 1)-1))-leastClass, 0)
	switch {
	case n > longestBuffer:
		return make([]byte, 0, n)
	case i >= bufferClasses:
		i = bufferClasses - 1
	}
	if last := len(p.free[i]) - 1; last >= 0 {
		b := p.free[i][last]
		p.free[i][last] = nil
		p.free[i] = p.free[i][:last]
		p.kept -= cap(b)
		return b
	}
	return make([]byte, 0, classSize(i))
}

// put returns a buffer to the pool. The caller must hold no other reference to it. Buffers of other sizes are dropped.
func (p *bufferPool) put(b []byte) {
	i := bits.Len(uint(cap(b))) - 1 - leastClass
	if cap(b) == longestBuffer {
		i = bufferClasses - 1
	}
	if i < 0 || i >= bufferClasses || cap(b) != classSize(i) || p.kept+cap(b) > p.most {
		return
	}
	p.kept += cap(b)
	p.free[i] = append(p.free[i], b[:0])
}

// grow makes room for n more bytes in b.
func (p *bufferPool) grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	want := len(b) + n
	if want > longestBuffer {
		want = max(want, 2*cap(b)) // beyond the classes, copying must not exceed linear cost
	}
	bigger := append(p.get(want), b...)
	p.put(b)
	return bigger
}

// queue holds bytes to be sent, starting at off. Bytes before off were sent, and are kept only while the sender may
// have to start again (rewind).
type queue struct {
	buf []byte
	off int
}

func (q *queue) len() int { return len(q.buf) - q.off }

func (q *queue) append(p *bufferPool, b []byte, keep bool) {
	if !keep && q.off > 0 && q.off >= len(q.buf)/2 {
		q.buf = q.buf[:copy(q.buf, q.buf[q.off:])]
		q.off = 0
	}
	q.buf = append(p.grow(q.buf, len(b)), b...)
}

// sent records that the first n waiting bytes were sent.
func (q *queue) sent(p *bufferPool, n int, keep bool) {
	q.off += n
	if !keep && q.off == len(q.buf) {
		q.drop(p)
	}
}

func (q *queue) rewind() { q.off = 0 }

func (q *queue) drop(p *bufferPool) {
	if q.buf != nil {
		p.put(q.buf)
	}
	q.buf, q.off = nil, 0
}
