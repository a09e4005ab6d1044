package router

// Tried lists the backends at which a call did not start. It is immutable; nil is an empty list.
type Tried struct {
	backend *Backend
	before  *Tried
}

// With returns the list with one more backend.
func (t *Tried) With(b *Backend) *Tried { return &Tried{b, t} }

// Has reports whether a backend is listed.
func (t *Tried) Has(b *Backend) bool {
	for ; t != nil; t = t.before {
		if t.backend == b {
			return true
		}
	}
	return false
}

// Untried returns the least loaded usable backend that is not listed; nil if there is none.
func (f *Fleet) Untried(t *Tried) *Backend {
	f.state.mu.Lock()
	p := f.rebuildIfDue(f.clock.now())
	f.state.mu.Unlock()
	var best *load
	for _, m := range p.all {
		if !t.Has(m.Backend) && (best == nil || m.load.lighter(best)) {
			best = m.load
		}
	}
	if best == nil {
		return nil
	}
	return best.backend
}
