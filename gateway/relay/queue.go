package relay

import (
	"math/bits"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

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

// byteQueue holds bytes to be sent, starting at off. Bytes before off were sent, and are kept only while the sender may
// have to start again (rewind).
type byteQueue struct {
	buf []byte
	off int
}

func (q *byteQueue) len() int { return len(q.buf) - q.off }

func (q *byteQueue) append(p *bufferPool, b []byte, keep bool) {
	if !keep && q.off > 0 && q.off >= len(q.buf)/2 {
		q.buf = q.buf[:copy(q.buf, q.buf[q.off:])]
		q.off = 0
	}
	q.buf = append(p.grow(q.buf, len(b)), b...)
}

// queue holds what a half has yet to send: bytes, and the trailers that follow them. A half has a queue only while it
// needs one, because most open streams have nothing to send. The methods of a nil queue describe an empty one.
type queue struct {
	byteQueue
	trailers   *hpack.List // optional
	prev, next *half       // in conn.waiting
	listed     bool        // in conn.waiting
}

func (q *queue) len() int {
	if q == nil {
		return 0
	}
	return q.byteQueue.len()
}

// bytes returns the bytes of the queue, with those that were sent.
func (q *queue) bytes() []byte {
	if q == nil {
		return nil
	}
	return q.buf
}

// past returns the number of bytes that were sent and are kept.
func (q *queue) past() int {
	if q == nil {
		return 0
	}
	return q.off
}

// size returns the size of the buffer, in bytes.
func (q *queue) size() int { return cap(q.bytes()) }

func (q *queue) isListed() bool { return q != nil && q.listed }

func (q *queue) rewind() {
	if q != nil {
		q.off = 0
	}
}

// needQueue returns the queue of a half, and adds one if it has none.
func (h *half) needQueue() *queue {
	if h.queue != nil {
		return h.queue
	}
	sh := h.stream.sh
	if n := len(sh.queues); n > 0 {
		h.queue, sh.queues = sh.queues[n-1], sh.queues[:n-1]
	} else {
		h.queue = new(queue)
	}
	return h.queue
}

// enqueue appends bytes to the queue.
func (h *half) enqueue(b []byte, keep bool) {
	if len(b) > 0 {
		h.needQueue().append(&h.stream.sh.buffers, b, keep)
	}
}

// dequeue records that the first n waiting bytes were sent.
func (h *half) dequeue(n int, keep bool) {
	q := h.queue
	if q == nil {
		return
	}
	q.off += n
	if !keep && q.off == len(q.buf) {
		h.dropQueue()
	}
}

// follow adds trailers, which the half sends after its bytes.
func (h *half) follow(trailers *hpack.List) { h.needQueue().trailers = trailers }

// dropQueue drops the bytes of the queue.
func (h *half) dropQueue() {
	q := h.queue
	if q == nil {
		return
	}
	if q.buf != nil {
		h.stream.sh.buffers.put(q.buf)
	}
	q.buf, q.off = nil, 0
	h.freeQueue()
}

// clearQueue drops the queue. The half must be detached.
func (h *half) clearQueue() {
	if q := h.queue; q != nil && q.trailers != nil {
		h.stream.sh.freeList(q.trailers)
		q.trailers = nil
	}
	h.dropQueue()
}

// freeQueue releases a queue that is no longer needed.
func (h *half) freeQueue() {
	q, sh := h.queue, h.stream.sh
	if q.buf != nil || q.trailers != nil || q.listed {
		return
	}
	if h.queue = nil; len(sh.queues) < keepStreams {
		sh.queues = append(sh.queues, q)
	}
}
