package relay

// nameSet is a set of header names that may have false positives: a request has no header whose name is missing from
// its set.
type nameSet uint64

// setOf returns the set with one name. Names of different length, or with another last or middle byte, mostly differ.
func setOf(name string) nameSet {
	n := uint(len(name))
	if n == 0 {
		return 1
	}
	return 1 << ((n*5 + uint(name[n/2]) + uint(name[n-1])*4) & 63)
}

// mayHave reports whether the request may have a header.
func (s *Stream) mayHave(name string) bool {
	if s.requestHead == nil {
		return false
	}
	if s.names == 0 {
		for i := range s.head.Fields {
			name := setOf(s.head.Fields[i].Name)
			s.twice |= s.names & name
			s.names |= name
		}
	}
	return s.names&setOf(name) != 0
}
