package overload

// reserve is how many times what is free a tenant may have: of a process that it has to
// itself, four fifths. The rest is for who comes. The more there are that want more than
// they get the less is free, and the less each gets, the heaviest first; none of them has
// more than another (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998).
const reserve = 4

const (
	scarce   = 16   // of the calls in flight, one for so many may still come when memory is short: not of who has many
	critical = 1.2  // of the memory in use, from which on
	squeeze  = 0.9  // of the calls in flight may stay, until there is less
	few      = 4    // calls a tenant may have all the same: not all tenants together more than least or what scarce allows
	relaxed  = 0.9  // of the memory in use, or less, is enough
	release  = 1.25 // so many times as many calls may be in flight, each time that there is
	least    = 16   // calls in flight, or more than there were, that are never too many: something else fills the memory
)

// squeeze moves the bounds of calls in flight so that memory suffices, of which so much is
// in use. Calls end by themselves.
func (s *Shedder) squeeze(used float64) {
	running, bound, brim := s.inFlight.Load(), s.bound.Load(), s.brim.Load()
	switch {
	case used > 1:
		most := running + running/scarce
		if brim = min(brim, max(most, running+least)); used >= critical {
			most = int64(float64(running) * squeeze)
		}
		bound = min(bound, most)
	case used < relaxed:
		bound, brim = int64(float64(bound)*release)+1, unbounded
	}
	s.bound.Store(min(max(bound, least), s.cfg.inFlight()))
	s.brim.Store(min(brim, s.cfg.inFlight()))
}
