package overload

// reserve is the factor of the free capacity that a tenant may have. A tenant that is alone gets four
// fifths; the rest is for newcomers. The more tenants exceed their share, the less capacity is free, and
// the less each gets, the heaviest first (Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998).
const reserve = 4

const (
	// scarceDivisor is the divisor of the calls in flight that may still begin when memory is short, for tenants
	// with few calls.
	scarceDivisor = 16
	memoryShort   = 1.2 // share of the memory limit above which memory is short
	shrink        = 0.9 // share of the calls in flight that may stay, until less memory is used
	// alwaysAllowed is the number of calls that a tenant may always have. Together tenants have no more than least,
	// or what scarce allows.
	alwaysAllowed = 4
	memoryEnough  = 0.9  // share of the memory limit below which there is enough
	growBy        = 1.25 // factor by which the bound then grows, each time
	least         = 16   // calls in flight that are never too many: something else fills the memory
)

// adjustBounds moves the bounds of calls in flight so that memory suffices; used is its part in use. Calls in
// flight are not ended.
func (s *Shedder) adjustBounds(used float64) {
	running, bound, brim := s.inFlight.Load(), s.bound.Load(), s.boundForSmall.Load()
	switch {
	case used > 1:
		most := running + running/scarceDivisor
		if brim = min(brim, max(most, running+least)); used >= memoryShort {
			most = int64(float64(running) * shrink)
		}
		bound = min(bound, most)
	case used < memoryEnough:
		bound, brim = int64(float64(bound)*growBy)+1, unbounded
	}
	s.bound.Store(min(max(bound, least), s.cfg.inFlight()))
	s.boundForSmall.Store(min(brim, s.cfg.inFlight()))
}

// markHogs marks the tenants that hold more than their fair share of a memory that is short: of nine tenths of what all
// hold, by max-min fairness. They are shed first. Unless memory is far too short, others are not shed for it.
func (s *Shedder) markHogs(used float64) {
	use := s.use.Load()
	switch {
	case use == nil || used < memoryEnough:
		s.each(func(_ string, t *Share) { t.hog.Store(false) })
		s.sparing.Store(false)
		return
	case used <= 1:
		return
	}
	found := false
	var all []demand
	s.each(func(tenant string, t *Share) {
		if !t.only {
			all = append(all, demand{t, float64((*use)(tenant).Held)})
		}
	})
	level := waterLevel(all, shrink*total(all))
	for _, d := range all {
		hog := len(all) > 1 && d.calls > level
		d.share.hog.Store(hog)
		found = found || hog
	}
	s.sparing.Store(found && used < memoryShort)
}
