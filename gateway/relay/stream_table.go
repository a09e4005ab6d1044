package relay

// streamTable maps ids to a connection's streams. Ids are odd and increasing, so each stream has its own slot until it
// outlives as many younger streams as there are slots; the few streams whose slot is then taken are kept in a map. A
// Go map alone costs several times as much on every frame.
type streamTable struct {
	slots []*half // the length is a power of two
	extra map[uint32]*half
	count int
}

func (t *streamTable) slot(id uint32) int { return int(id>>1) & (len(t.slots) - 1) }

func (t *streamTable) get(id uint32) *half {
	if t.count == 0 {
		return nil
	}
	if h := t.slots[t.slot(id)]; h != nil && h.id == id {
		return h
	}
	if len(t.extra) > 0 {
		return t.extra[id]
	}
	return nil
}

func (t *streamTable) put(h *half) {
	t.count++
	if 2*t.count > len(t.slots) {
		t.resize(max(8, 2*len(t.slots)))
	}
	t.insert(h)
}

func (t *streamTable) insert(h *half) {
	if slot := &t.slots[t.slot(h.id)]; *slot == nil {
		*slot = h
		return
	}
	if t.extra == nil {
		t.extra = map[uint32]*half{}
	}
	t.extra[h.id] = h
}

// remove removes a stream. The slots are kept: they are small compared to the streams, and the next burst needs them.
func (t *streamTable) remove(id uint32) {
	t.count--
	if slot := &t.slots[t.slot(id)]; *slot != nil && (*slot).id == id {
		*slot = nil
	} else {
		delete(t.extra, id)
	}
}

func (t *streamTable) resize(n int) {
	all := t.all()
	t.slots, t.extra = make([]*half, n), nil
	for _, h := range all {
		t.insert(h)
	}
}

func (t *streamTable) all() []*half {
	all := make([]*half, 0, t.count)
	for _, h := range t.slots {
		if h != nil {
			all = append(all, h)
		}
	}
	for _, h := range t.extra {
		all = append(all, h)
	}
	return all
}

// each calls f for every stream in the table. f may remove any of them.
func (t *streamTable) each(f func(*half)) {
	for _, h := range t.all() {
		if t.get(h.id) == h {
			f(h)
		}
	}
}
