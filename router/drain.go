package router

import "time"

// Drain takes a backend out of its fleets: it gets no new calls, and keeps those that it
// has.
type Drain struct {
	Capability string // the fleet's; "": every fleet that has the backend
	Addr       string
	Since      time.Time
}

// drains are Drains by their addresses.
type drains map[string][]Drain

// since is when a backend's drain began, in nanoseconds of Unix time; 0: it is not drained.
func (d drains) since(b *Backend) int64 {
	for i := range d[b.Addr] {
		if x := &d[b.Addr][i]; x.Capability == "" || x.Capability == b.Capability {
			return max(x.Since.UnixNano(), 1)
		}
	}
	return 0
}

// SetDrains puts drains in force, and ends all others. They hold for tables to come too.
func (r *Router) SetDrains(all []Drain) {
	next := drains{}
	for _, d := range all {
		next[d.Addr] = append(next[d.Addr], d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drains = next
	for _, f := range r.Table().ordered {
		f.drain(next)
	}
}

// drain changes which of a fleet's backends are drained.
func (f *Fleet) drain(d drains) {
	changed := false
	for _, b := range f.Backends {
		since := d.since(b)
		changed = b.drainedSince.Swap(since) != since || changed
	}
	if !changed {
		return
	}
	f.standing.mu.Lock()
	defer f.standing.mu.Unlock()
	f.muster(f.clock.now())
}

// Draining says whether the backend is to get no new calls.
func (b *Backend) Draining() bool { return b.drainedSince.Load() != 0 }

// wanted says whether calls are meant to come to a member.
func (m *member) wanted() bool { return m.weight > 0 && !m.Draining() }

// UsableWithout is how many backends calls could go to if one more were drained.
func (f *Fleet) UsableWithout(addr string) int {
	f.standing.mu.Lock()
	p := f.musterIfDue(f.clock.now())
	f.standing.mu.Unlock()
	n := 0
	for _, m := range p.all {
		if m.Addr != addr {
			n++
		}
	}
	return n
}
