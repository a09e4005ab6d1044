package relay

// halfList is a queue of halves that wait for their connection.
type halfList struct {
	first, last *half
}

func (l *halfList) push(h *half) {
	if h.listed {
		return
	}
	h.listed, h.prev = true, l.last
	if l.last != nil {
		l.last.next = h
	} else {
		l.first = h
	}
	l.last = h
}

func (l *halfList) remove(h *half) {
	if !h.listed {
		return
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		l.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		l.last = h.prev
	}
	h.listed, h.prev, h.next = false, nil, nil
}
