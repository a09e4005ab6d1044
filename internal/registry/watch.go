package registry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// lookupTimeout bounds one look at a name. Resolvers give up a server after 5 s, so that
// a second one gets its turn.
const lookupTimeout = 12 * time.Second

// Target is a name that resolves to backends of a capability.
type Target struct {
	Capability string
	Name       Name
	Weight     int    // of each address, 0 to 10000; with SRV records 100 leaves theirs as they are
	Zone       string // of all of them
	Session    string // as in Member, as what follows
	Tenant     string
}

// watches holds the goroutines of resolve: one for each name, however many targets have it.
type watches struct {
	running map[Name]context.CancelFunc
	all     sync.WaitGroup
}

// resolve looks up the names of the settings periodically, until ctx ends.
func (r *Registry) resolve(ctx context.Context) {
	w := watches{running: map[Name]context.CancelFunc{}}
	defer w.all.Wait()
	for {
		r.retarget(ctx, &w)
		select {
		case <-ctx.Done():
			return
		case <-r.settingsChanged:
		}
	}
}

// retarget starts the missing goroutines of w and stops the superfluous ones.
func (r *Registry) retarget(ctx context.Context, w *watches) {
	r.mu.Lock()
	wanted := r.wanted
	r.mu.Unlock()
	for name, cancel := range w.running {
		if !wanted[name] {
			cancel()
			delete(w.running, name)
			r.mu.Lock()
			delete(r.schedules, name)
			r.mu.Unlock()
		}
	}
	for name := range wanted {
		if w.running[name] != nil {
			continue
		}
		s := &schedule{sooner: make(chan struct{}, 1)}
		r.mu.Lock()
		r.schedules[name] = s
		r.mu.Unlock()
		watching, cancel := context.WithCancel(ctx)
		w.running[name] = cancel
		w.all.Go(recovery.Loop(watching, "dns", func() { r.watch(watching, name, s) }))
	}
}

// watch looks up one name periodically, until ctx ends.
func (r *Registry) watch(ctx context.Context, name Name, s *schedule) {
	failing := false
	for {
		failing = r.look(ctx, name, failing)
		r.mu.Lock()
		if r.wanted[name] && !r.resolved[name] {
			r.resolved[name] = true
			r.checkAsked()
		}
		interval, absent := r.settings.Resolve, len(r.answers[name]) == 0
		r.mu.Unlock()
		if !s.pause(ctx, interval, absent) {
			return
		}
	}
}

// look looks up a name once and reports a failure. It logs only the first one.
func (r *Registry) look(ctx context.Context, name Name, failing bool) bool {
	asking, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	select { // bounds concurrent lookups, as there may be ten thousand names
	case r.permits <- struct{}{}:
		defer func() { <-r.permits }()
	case <-ctx.Done():
		return failing
	}
	r.mu.Lock()
	resolver := r.resolver
	r.mu.Unlock()
	found, err := lookup(asking, resolver, name)
	if ctx.Err() != nil {
		return failing
	}
	if err != nil {
		r.counts.lookupsFailed.Add(1)
		if !failing {
			r.log.Warn("dns: the last answer stays in force", "name", name.String(), "addresses", r.answered(name),
				"error", err)
		}
		return true
	}
	if failing {
		r.log.Info("dns: answers again", "name", name.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() == nil && !slices.Equal(r.answers[name], found) { // a stopped watch has no say
		r.log.Info("dns: backends", "name", name.String(), "addresses", len(found))
		r.answers[name] = found
		signal.Wake(r.dirty)
	}
	return false
}

// checkAsked closes allResolved when every name has been looked up. The caller holds r.mu.
func (r *Registry) checkAsked() {
	if len(r.resolved) < len(r.wanted) {
		return
	}
	select {
	case <-r.allResolved:
	default:
		close(r.allResolved)
	}
}

// answered returns the number of known addresses of a name.
func (r *Registry) answered(name Name) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.answers[name])
}

// dnsMembers appends what DNS names. The caller holds r.mu.
func (r *Registry) dnsMembers(members []Member) []Member {
	for _, t := range r.settings.Targets {
		for _, e := range r.answers[t.Name] {
			members = append(members, Member{
				Capability: t.Capability, Addr: e.addr.String(), ServerName: t.Name.serverName(),
				Weight: t.weigh(e.weight), Zone: t.Zone, Session: t.Session, Tenant: t.Tenant, Source: DNS,
			})
		}
	}
	return members
}

// weigh puts the weight of a target and that of its record together.
func (t *Target) weigh(record int) int {
	if t.Weight == 0 {
		return 0
	}
	return min(max(record*t.Weight/defaultWeight, 1), maxWeight)
}

// jitter is the share by which replicas vary their intervals.
const jitter = 0.1
