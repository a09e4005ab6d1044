package relay

// resetIDs holds the last few streams that we reset.
type resetIDs struct {
	ids  []uint32
	next int
}

const rememberResets = 64

func (r *resetIDs) add(id uint32) {
	if len(r.ids) < rememberResets {
		r.ids = append(r.ids, id)
		return
	}
	r.ids[r.next] = id
	r.next = (r.next + 1) % rememberResets
}

func (r *resetIDs) has(id uint32) bool {
	for _, x := range r.ids {
		if x == id {
			return true
		}
	}
	return false
}
