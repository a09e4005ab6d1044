package hpack

const (
	// maxSent is the maximum size of an Encoder's dynamic table, whatever the peer allows: only the few fields of each
	// call matter.
	maxSent = 4096

	// minSentFields is the number of fields that a table has room for at first. Most clients get fewer.
	minSentFields = 16
)

// sent is an encoder's dynamic table. Entries are never evicted one by one, so an entry's index from the oldest is
// constant, and a field is found by its pointer alone.
type sent struct {
	fields []*interned // oldest first
	slots  []uint8     // twice cap(fields), open-addressed by interned.id: index in fields plus 1
}

// find returns the index of in, or -1.
func (t *sent) find(in *interned) int {
	mask := len(t.slots) - 1
	for h := int(uint8(in.id)); ; h++ {
		i := int(t.slots[h&mask]) - 1
		if i < 0 || t.fields[i] == in {
			return i
		}
	}
}

// add adds in as the newest entry. Fewer than maxSent/fieldOverhead fit, so a slot has room for each index.
func (t *sent) add(in *interned) {
	if len(t.fields) == cap(t.fields) {
		t.grow()
	}
	t.fields = append(t.fields, in)
	t.place(in, len(t.fields))
}

// place sets the slot of in.
func (t *sent) place(in *interned, value int) {
	mask := len(t.slots) - 1
	h := int(uint8(in.id))
	for t.slots[h&mask] != 0 {
		h++ // terminates: at most half of the slots are in use
	}
	t.slots[h&mask] = uint8(value)
}

// grow doubles the room.
func (t *sent) grow() {
	former := t.fields
	room := max(minSentFields, 2*len(former))
	t.fields, t.slots = append(make([]*interned, 0, room), former...), make([]uint8, 2*room)
	for i, in := range former {
		t.place(in, i+1)
	}
}

// clear removes all entries.
func (t *sent) clear() {
	clear(t.fields) // they must not be kept alive
	clear(t.slots)
	t.fields = t.fields[:0]
}
