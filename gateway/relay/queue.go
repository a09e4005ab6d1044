package relay

// bufferPool recycles a shard's byte buffers by size class, so that a busy shard
// makes no garbage and an idle stream or connection holds no buffer.
type bufferPool struct {
	free [len(bufferClasses)][][]byte
}

var bufferClasses = [...]int{512, 2 << 10, 8 << 10, 32 << 10, 64 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 17 << 20}

// keepBytes is how many bytes of each class a shard keeps, or one buffer if that is
// more; a shard without connections keeps none.
const keepBytes = 4 << 20

// get returns an empty buffer with room for at least n bytes.
func (p *bufferPool) get(n int) []byte {
	for i, size := range bufferClasses {
		if n > size {
			continue
		}
		if last := len(p.free[i]) - 1; last >= 0 {
			b := p.free[i][last]
			p.free[i] = p.free[i][:last]
			return b
		}
		return make([]byte, 0, size)
	}
	return make([]byte, 0, n)
}

// put takes a buffer back; the caller must hold no other reference to it.
func (p *bufferPool) put(b []byte) {
	for i := len(bufferClasses) - 1; i >= 0; i-- {
		if size := bufferClasses[i]; cap(b) >= size {
			if len(p.free[i]) < max(keepBytes/size, 1) && cap(b) < 2*size {
				p.free[i] = append(p.free[i], b[:0])
			}
			return
		}
	}
}

// grow makes room for n more bytes in b.
func (p *bufferPool) grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	want := len(b) + n
	if want > bufferClasses[len(bufferClasses)-1] {
		want = max(want, 2*cap(b)) // beyond the classes, copying must not outgrow the bytes
	}
	bigger := append(p.get(want), b...)
	p.put(b)
	return bigger
}

// queue holds bytes that wait to be sent, from off on. Bytes before off were sent
// and are kept only while the sender may have to start again (rewind).
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

// sent records that the first n waiting bytes went out.
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
