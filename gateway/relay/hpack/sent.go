package hpack

const (
	// maxSent is the maximum size of an Encoder's dynamic table, whatever the peer allows: only the few fields of each
	// call matter.
	maxSent = 4096

	// maxSentFields is the number of fields of the smallest size that fit into maxSent.
	maxSentFields = maxSent / fieldOverhead
)

// sent is an encoder's dynamic table. Entries are never evicted one by one, so an entry's index from the oldest is
// constant, and a field is found by its pointer alone.
type sent struct {
	fields [maxSentFields]*interned // oldest first
	slots  [256]uint8               // open-addressed by interned.id: index in fields plus 1
}

// find returns the index of in, or -1.
func (t *sent) find(in *interned) int {
	for h := uint8(in.id); ; h++ {
		i := int(t.slots[h]) - 1
		if i < 0 || t.fields[i&(maxSentFields-1)] == in {
			return i
		}
	}
}

// add stores in at index n, the next free one.
func (t *sent) add(in *interned, n int) {
	t.fields[n] = in
	h := uint8(in.id)
	for t.slots[h] != 0 {
		h++ // terminates: fewer than half of the slots are in use
	}
	t.slots[h] = uint8(n + 1)
}
