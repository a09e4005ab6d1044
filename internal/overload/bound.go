package overload

// reserve is the factor of the free capacity that a tenant may have. A tenant that is alone gets four
// fifths; the rest is for newcomers. The more tenants exceed their share, the less capacity is free, and
// the less each gets, the heaviest first (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998).
const reserve = 4

const (
	// scarce is the divisor of the calls in flight that may still begin when memory is short, for tenants
	// with few calls.
	scarce   = 16
	critical = 1.2 // share of the memory limit above which memory is short
	squeeze  = 0.9 // share of the calls in flight that may stay, until less memory is used
	// few is the number of calls that a tenant may always have. Together tenants have no more than least,
	// or what scarce allows.
	few     = 4
	relaxed = 0.9  // share of the memory limit below which there is enough
	release = 1.25 // factor by which the bound then grows, each time
	least   = 16   // calls in flight that are never too many: something else fills the memory
)

// squeeze moves the bounds of calls in flight so that memory suffices; used is its part in use. Calls in
// flight are not ended.
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
