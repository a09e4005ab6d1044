package router

import "time"

// Drain takes a backend out of its fleets: it gets no new calls, and finishes those that it has.
type Drain struct {
	Capability string // the fleet's; "": every fleet that has the backend
	Addr       string
	Since      time.Time
	By         string // the operator that began it; "": unknown
}

// drains are Drains by address.
type drains map[string][]Drain

// of returns a backend's drain; nil: not drained.
func (d drains) of(b *Backend) *Drain {
	for i := range d[b.Addr] {
		if x := &d[b.Addr][i]; x.Capability == "" || x.Capability == b.Capability {
			return x
		}
	}
	return nil
}

// SetDrains replaces all drains. They also apply to later tables.
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

// drain updates which backends of a fleet are drained.
func (f *Fleet) drain(d drains) {
	changed := false
	for _, b := range f.Backends {
		next := d.of(b)
		was := b.drained.Swap(next)
		changed = (was == nil) != (next == nil) || changed
	}
	if !changed {
		return
	}
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	f.rebuild(f.clock.now())
	f.state.resumeReady()
}

// Draining reports whether the backend gets no new calls.
func (b *Backend) Draining() bool { return b.drained.Load() != nil }

// configured reports whether a member may get calls according to the configuration.
func (m *member) configured() bool { return m.weight > 0 && !m.Draining() }

// UsableWithout returns the number of usable backends if one more were drained.
func (f *Fleet) UsableWithout(addr string) int {
	f.state.mu.Lock()
	p := f.rebuildIfDue(f.clock.now())
	f.state.mu.Unlock()
	n := 0
	for _, m := range p.all {
		if m.Addr != addr {
			n++
		}
	}
	return n
}
