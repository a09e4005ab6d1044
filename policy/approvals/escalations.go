package approvals

import (
	"context"
	"time"
)

const (
	// escalateInterval is the interval at which the tenants with due approvals are queried.
	escalateInterval = time.Second
	// escalateRetry is the wait after a query that failed.
	escalateRetry = 5 * time.Second
)

// Escalations publishes EventEscalated when further groups may answer an approval. Every replica checks; the store lets
// one of them publish.
type Escalations struct {
	service *Service
	tenants Tenants
	due     map[string]time.Time // when a tenant is queried next
	all     bool                 // all tenants have to be listed
}

// NewEscalations returns Escalations for the approvals of tenants.
func NewEscalations(k *Service, tenants Tenants) *Escalations {
	return &Escalations{service: k, tenants: tenants, due: map[string]time.Time{}, all: true}
}

// Run looks for due approvals until ctx ends. The Service must be running.
func (e *Escalations) Run(ctx context.Context) {
	l := e.service.listeners.Join(listenerBuffer, nil)
	defer e.service.listeners.Leave(l)
	tick := time.NewTicker(escalateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.Missed:
			e.all = true
		case n := <-l.Values:
			if n.Kind == EventCreated {
				e.due[n.Tenant] = time.Time{}
			}
		case <-tick.C:
			e.look(ctx)
		}
	}
}

// look queries the tenants that are due.
func (e *Escalations) look(ctx context.Context) {
	if e.all {
		e.all = e.tenants.Each(ctx, func(tenant string) { e.due[tenant] = time.Time{} }) != nil
	}
	now := time.Now()
	for tenant, at := range e.due {
		if now.Before(at) {
			continue
		}
		next, err := e.service.escalateDue(ctx, tenant)
		switch {
		case err != nil:
			e.due[tenant] = now.Add(escalateRetry)
		case next < 0:
			delete(e.due, tenant)
		default:
			e.due[tenant] = now.Add(next)
		}
	}
}

// escalateDue escalates the due approvals of a tenant, by the rules in force, and returns the time until the next may
// be due; negative if there is none.
func (k *Service) escalateDue(ctx context.Context, tenant string) (time.Duration, error) {
	due, next, err := k.store.Due(ctx, tenant)
	for i := range due {
		if err != nil {
			break
		}
		a := &due[i].Approval
		switch t := k.terms(a); {
		case t.Escalates.IsZero():
			err = k.store.Postpone(ctx, tenant, a.ID, -1)
		case k.opts.Now().Before(t.Escalates):
			err = k.store.Postpone(ctx, tenant, a.ID, t.Escalates.Sub(k.opts.Now()))
		default:
			_, err = k.store.Escalate(ctx, tenant, a.ID)
		}
	}
	if len(due) > 0 {
		next = 0 // look again
	}
	return next, err
}
