package relay

// nameSet is a set of header names that may have false positives: a request has no header whose name is missing from
// its set.
type nameSet uint64

// setOf returns the set with one name. Names of different length, or with another last or middle byte, mostly differ.
func setOf(name string) nameSet { return 1 << bitOf(name) }

// bitOf returns the bit of a name, up to 63.
func bitOf(name string) uint32 {
	n := uint32(len(name))
	if n == 0 {
		return 0
	}
	return (n*5 + uint32(name[n/2]) + uint32(name[n-1])*4) & 63
}

// setShift is the position of the bit of setOf in a field's tag, of 6 bits, so that a search does not read the names.
const (
	setShift        = 26
	setMask  uint32 = 63 << setShift
)

// setOfTag returns the set with the name of a field.
func setOfTag(tag uint32) nameSet { return 1 << (tag >> setShift) }

// mayHave reports whether the request may have a header.
func (s *Stream) mayHave(name string) bool {
	if s.requestHead == nil {
		return false
	}
	if s.names == 0 {
		for i := range s.head.Fields {
			name := setOfTag(s.head.Fields[i].Tag)
			s.twice |= s.names & name
			s.names |= name
		}
	}
	return s.names&setOf(name) != 0
}
