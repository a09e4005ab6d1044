package relay

// halfList is a list of halves that wait for their connection. It is linked through their queues.
type halfList struct {
	first, last *half
}

func (l *halfList) push(h *half) {
	q := h.needQueue()
	if q.listed {
		return
	}
	q.listed, q.prev = true, l.last
	if l.last != nil {
		l.last.queue.next = h
	} else {
		l.first = h
	}
	l.last = h
}

func (l *halfList) remove(h *half) {
	q := h.queue
	if !q.isListed() {
		return
	}
	if q.prev != nil {
		q.prev.queue.next = q.next
	} else {
		l.first = q.next
	}
	if q.next != nil {
		q.next.queue.prev = q.prev
	} else {
		l.last = q.prev
	}
	q.listed, q.prev, q.next = false, nil, nil
	h.freeQueue()
}
