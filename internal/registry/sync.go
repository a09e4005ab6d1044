package registry

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/lib/signal"
)

// minReadInterval is the least time between two reads, so that a burst of changes costs few reads.
const minReadInterval = 50 * time.Millisecond

// readTimeout bounds one read.
const readTimeout = 10 * time.Second

// entry is a registration, as far as this replica has read it.
type entry struct {
	Registration
	writeNo int // number of the write, if this replica wrote it
	// missing is the time since when the store lacks the registration without having ended it: it was
	// lost. Zero: the store has it.
	missing time.Time
}

// syncLeases reads the leases periodically and after notifications, until ctx ends.
func (r *Registry) syncLeases(ctx context.Context) {
	read := sync.OnceFunc(func() { close(r.firstRead) })
	changefeed.Poll(ctx, "registry", r.notified, r.leases.Watch, func(ctx context.Context) time.Duration {
		r.read(ctx)
		read()
		backoff.Sleep(ctx, minReadInterval)
		return backoff.Jitter(r.poll, jitter)
	})
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
	if r.apply(&got, err, writes) {
		r.fetch(reading)
		signal.Wake(r.dirty)
	}
}

// apply applies a read that began after so many writes of this replica, and reports whether anything changed.
func (r *Registry) apply(got *Reading, err error, writes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.storeAway(err)
		return false
	}
	r.storeBack()
	if !got.Unchanged {
		r.replace(got, writes)
	}
	r.expireLost()
	return true
}

// storeAway records that the store does not answer. Lost registrations do not expire until it is back. The caller
// holds r.mu.
func (r *Registry) storeAway(err error) {
	r.counts.readsFailed.Add(1)
	for _, h := range r.registrations {
		h.missing = time.Time{}
	}
	r.version = "" // so that the next read is complete
	if !r.silent {
		r.silent = true
		// The store itself logs a warning.
		r.log.Debug("registrations cannot be read; known ones stay in use", "registrations", len(r.registrations),
			"error", err)
	}
}

// storeBack records that the store answers. The caller holds r.mu.
func (r *Registry) storeBack() {
	if r.silent {
		r.silent = false
		r.log.Debug("registrations can be read again")
	}
	r.lastRead = time.Now()
}

// replace replaces the known registrations by the store's, except for lost ones, and for those that this replica
// wrote after the given number of writes, which are newer. The caller holds r.mu.
func (r *Registry) replace(got *Reading, writes int) {
	next := make(map[Key]*entry, len(got.Live))
	ended := got.Ended
	ignored := got.Malformed
	for i := range got.Live {
		g := &got.Live[i]
		switch {
		case !r.settings.Rules.trusted(g):
			ignored++
			ended = append(ended, g.Key())
		case r.withdrawn[g.Key()] <= writes:
			next[g.Key()] = &entry{Registration: *g}
		}
	}
	maps.DeleteFunc(r.withdrawn, func(_ Key, n int) bool { return n <= writes })
	for _, key := range ended {
		if h := r.registrations[key]; h != nil && h.writeNo <= writes {
			delete(r.registrations, key)
		}
	}
	for key, h := range r.registrations {
		if h.writeNo > writes {
			next[key] = h
		} else if next[key] == nil {
			if h.missing.IsZero() {
				h.missing = time.Now()
			}
			next[key] = h
		}
	}
	r.registrations = next
	r.version = got.Version
	r.counts.ignored.Store(int64(ignored))
}

// expireLost drops registrations that were lost a whole lease ago. The caller holds r.mu.
func (r *Registry) expireLost() {
	for key, h := range r.registrations {
		if !h.missing.IsZero() && time.Since(h.missing) >= h.TTL {
			delete(r.registrations, key)
			r.log.Warn("registration lost by the store, and not renewed", "capability", h.Capability, "addr", h.Addr)
		}
	}
}
