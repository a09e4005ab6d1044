package hpack

const (
	// maxSent is the most bytes of dynamic table that an Encoder uses, whatever the
	// peer allows: what matters is the few fields that come in each call.
	maxSent = 4096

	// maxSentFields is how many fields of the smallest size fit into maxSent.
	maxSentFields = maxSent / fieldOverhead
)

// sent is an encoder's dynamic table. Nothing is evicted from it one by one, so
// an entry's place from the oldest never changes and a field is found by the
// pointer alone.
type sent struct {
	fields [maxSentFields]*interned // oldest first
	slots  [256]uint8               // open-addressed by interned.id: place in fields plus 1
}

// find returns the place of in, or -1.
func (t *sent) find(in *interned) int {
	for h := uint8(in.id); ; h++ {
		i := int(t.slots[h]) - 1
		if i < 0 || t.fields[i&(maxSentFields-1)] == in {
			return i
		}
	}
}

// add puts in at place n, the next free one.
func (t *sent) add(in *interned, n int) {
	t.fields[n] = in
	h := uint8(in.id)
	for t.slots[h] != 0 {
		h++ // ends: less than half of the slots are in use
	}
	t.slots[h] = uint8(n + 1)
}
