package registry

import (
	"context"
	"maps"
	"time"
)

// settle is the least time between two reads, so that a burst of changes costs few reads.
const settle = 50 * time.Millisecond

// readTimeout bounds one read.
const readTimeout = 10 * time.Second

// held is a registration that this replica knows.
type held struct {
	Registration
	wrote int // number of the write, if this replica wrote it
	// missing is the time since when the store lacks the registration without having ended it: it was
	// lost. Zero: the store has it.
	missing time.Time
}

// follow reads the leases periodically and after notifications, until ctx ends.
func (r *Registry) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	first := true
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.noticed:
			if !pause(ctx, settle) {
				break
			}
			drain(r.noticed)
		}
		if ctx.Err() == nil {
			r.read(ctx)
		}
		if first {
			close(r.wasRead)
			first = false
		}
		if ctx.Err() != nil {
			return
		}
		timer.Reset(vary(r.poll))
	}
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// read updates the registrations.
func (r *Registry) read(ctx context.Context) {
	r.mu.Lock()
	version, writes := r.version, r.writes
	r.mu.Unlock()
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	got, err := r.leases.Read(reading, version)
	if ctx.Err() != nil {
		return
	}
	if r.absorb(&got, err, writes) {
		r.fetch(reading)
		nudge(r.dirty)
	}
}

// absorb applies a read that began after so many writes of this replica, and reports whether anything changed.
func (r *Registry) absorb(got *Reading, err error, writes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.away(err)
		return false
	}
	r.back()
	if !got.Unchanged {
		r.take(got, writes)
	}
	r.forget()
	return true
}

// away records that the store does not answer. Lost registrations do not expire until it is back. The caller
// holds r.mu.
func (r *Registry) away(err error) {
	r.counts.readsFailed.Add(1)
	for _, h := range r.held {
		h.missing = time.Time{}
	}
	r.version = "" // so that the next read is complete
	if !r.silent {
		r.silent = true
		// The store itself logs a warning.
		r.log.Debug("registrations cannot be read: what is known stays in force", "registrations", len(r.held), "error", err)
	}
}

// back records that the store answers. The caller holds r.mu.
func (r *Registry) back() {
	if r.silent {
		r.silent = false
		r.log.Debug("registrations can be read again")
	}
	r.lastRead = time.Now()
}

// take replaces the known registrations by the store's, except for lost ones, and for those that this replica
// wrote after the given number of writes, which are newer. The caller holds r.mu.
func (r *Registry) take(got *Reading, writes int) {
	next := make(map[Key]*held, len(got.Live))
	ended := got.Ended
	ignored := got.Malformed
	for i := range got.Live {
		g := &got.Live[i]
		switch {
		case !r.settings.Rules.sound(g):
			ignored++
			ended = append(ended, g.Key())
		case r.withdrawn[g.Key()] <= writes:
			next[g.Key()] = &held{Registration: *g}
		}
	}
	maps.DeleteFunc(r.withdrawn, func(_ Key, n int) bool { return n <= writes })
	for _, key := range ended {
		if h := r.held[key]; h != nil && h.wrote <= writes {
			delete(r.held, key)
		}
	}
	for key, h := range r.held {
		if h.wrote > writes {
			next[key] = h
		} else if next[key] == nil {
			if h.missing.IsZero() {
				h.missing = time.Now()
			}
			next[key] = h
		}
	}
	r.held = next
	r.version = got.Version
	r.counts.ignored.Store(int64(ignored))
}

// forget drops registrations that were lost a whole lease ago. The caller holds r.mu.
func (r *Registry) forget() {
	for key, h := range r.held {
		if !h.missing.IsZero() && time.Since(h.missing) >= h.TTL {
			delete(r.held, key)
			r.log.Warn("registration lost by the store, and not renewed", "capability", h.Capability, "addr", h.Addr)
		}
	}
}

// nudge sends a wake-up that is not lost.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
