package overload

// reserve is how many times what is free a tenant may have: of a process that it has to
// itself, four fifths. The rest is for who comes. The more there are that want more than
// they get the less is free, and the less each gets, the heaviest first; none of them has
// more than another (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998).
const reserve = 4

const (
	scarce   = 16   // of the calls in flight, one for so many may still come when memory is short: not of who has many
	critical = 1.1  // of the memory in use, from which on
	squeeze  = 0.9  // of the calls in flight may stay, until there is less
	relaxed  = 0.9  // of the memory in use, or less, is enough
	release  = 1.25 // so many times as many calls may be in flight, each time that there is
	least    = 16   // calls in flight that are never too many: something else fills the memory
)

// squeeze moves the bound of calls in flight so that memory suffices, of which so much is
// in use. Calls end by themselves.
func (s *Shedder) squeeze(used float64) {
	running, bound := s.inFlight.Load(), s.bound.Load()
	switch {
	case used > critical:
		bound = min(bound, int64(float64(running)*squeeze))
	case used > 1:
		bound = min(bound, running+running/scarce)
	case used < relaxed:
		bound = int64(float64(bound)*release) + 1
	}
	s.bound.Store(min(max(bound, least), s.cfg.inFlight()))
}
