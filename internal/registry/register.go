package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/signal"
)

// writeTimeout bounds one registration or withdrawal, including DNS.
const writeTimeout = 10 * time.Second

// Register adds a backend of a capability, or renews its lease if g has one. It returns the registration in
// force, with its lease. It blocks for DNS and the store. Its error is a *call.Refusal.
func (r *Registry) Register(ctx context.Context, g Registration) (Registration, error) {
	r.mu.Lock()
	rules, resolver := r.settings.Rules, r.resolver
	r.mu.Unlock()
	if refusal := rules.check(&g); refusal != nil {
		return g, refusal
	}
	if refusal := r.checkManifest(&rules, &g); refusal != nil {
		return g, refusal
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if refusal := rules.pin(ctx, resolver, &g); refusal != nil {
		return g, refusal
	}
	renew := g.Lease != ""
	if !renew {
		g.Lease = rand.Text()
	}
	if refusal := r.checkLimits(&rules, &g); refusal != nil {
		return g, refusal
	}
	err := r.leases.Register(ctx, &g, renew, rules.Max)
	switch {
	case errors.Is(err, ErrSuperseded):
		return g, superseded(g.Key())
	case errors.Is(err, ErrFull):
		return g, full()
	case errors.Is(err, ErrManifests):
		return g, &call.Refusal{Kind: call.ResourceExhausted, Reason: "MANIFESTS_FULL", Message: ErrManifests.Error()}
	case err != nil:
		r.counts.writesFailed.Add(1)
		return g, unavailable(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	delete(r.withdrawn, g.Key())
	if h := r.registrations[g.Key()]; h == nil || !h.same(&g) {
		r.log.Info("registered", "capability", g.Capability, "addr", g.Addr, "addresses", len(g.Pinned), "session",
			g.Session != "", "manifest", g.Manifest.Sum != Sum{}, "ttl", g.TTL)
	}
	if m := &g.Manifest; m.Sum != (Sum{}) {
		if r.documents[m.Sum].capability == "" {
			r.documents[m.Sum] = document{g.Capability, m.Text}
		}
		m.Text = ""
	}
	r.registrations[g.Key()] = &entry{Registration: g, writeNo: r.writes}
	signal.Wake(r.dirty)
	return g, nil
}

// checkLimits refuses a registration beyond a maximum, by this replica's view.
func (r *Registry) checkLimits(rules *Rules, g *Registration) *call.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registrations[g.Key()] != nil {
		return nil
	}
	if len(r.registrations) >= rules.Max {
		return full()
	}
	n := 0
	for key := range r.registrations {
		if key.Capability == g.Capability {
			n++
		}
	}
	if n >= rules.perFleet() {
		return &call.Refusal{Kind: call.ResourceExhausted, Reason: "REGISTRATIONS_FULL",
			Message:  "the capability has reached its share of the registrations, a tenth of registration.max",
			Metadata: map[string]string{"capability": g.Capability}}
	}
	return nil
}

// Withdraw ends a registration. With a lease it ends only that one; "" ends any. Its error is a *call.Refusal.
func (r *Registry) Withdraw(ctx context.Context, key Key, lease string) error {
	if ip, name, port, refusal := splitAddr(key.Addr); refusal != nil {
		return refusal
	} else if name == "" {
		key.Addr = netip.AddrPortFrom(ip, port).String()
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	found, err := r.leases.Withdraw(ctx, key, lease)
	switch {
	case errors.Is(err, ErrSuperseded):
		return superseded(key)
	case err != nil:
		r.counts.writesFailed.Add(1)
		return unavailable(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	known := r.registrations[key] != nil
	if found || known {
		r.withdrawn[key] = r.writes
	}
	if known {
		delete(r.registrations, key)
		r.log.Info("withdrawn", "capability", key.Capability, "addr", key.Addr)
		signal.Wake(r.dirty)
	}
	if !found && !known {
		return &call.Refusal{Kind: call.NotFound, Reason: "REGISTRATION_UNKNOWN",
			Message:  key.Addr + " is not registered for " + key.Capability,
			Metadata: map[string]string{"capability": key.Capability, "addr": key.Addr}}
	}
	return nil
}

// Registrations returns all registrations, sorted by capability and address.
func (r *Registry) Registrations() []Registration {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Registration, 0, len(r.registrations))
	for _, h := range r.registrations {
		all = append(all, h.Registration)
	}
	slices.SortFunc(all, func(a, b Registration) int {
		if c := strings.Compare(a.Capability, b.Capability); c != 0 {
			return c
		}
		return strings.Compare(a.Addr, b.Addr)
	})
	return all
}

func superseded(key Key) *call.Refusal {
	return &call.Refusal{Kind: call.FailedPrecondition, Reason: "LEASE_SUPERSEDED", Message: ErrSuperseded.Error(),
		Metadata: map[string]string{"capability": key.Capability, "addr": key.Addr}}
}

func full() *call.Refusal {
	return &call.Refusal{
		Kind: call.ResourceExhausted, Reason: "REGISTRATIONS_FULL",
		Message: "the maximum number of registrations is reached (registration.max)",
	}
}

func unavailable(err error) *call.Refusal {
	return &call.Refusal{
		Kind: call.Unavailable, Reason: "REGISTRY_UNAVAILABLE",
		Message: "the store of registrations does not answer: " + err.Error(), RetryAfter: time.Second,
	}
}
