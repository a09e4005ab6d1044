package app

import (
	"context"
	"time"

	historyadmin "github.com/capgate/capgate/gateway/admin/history"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/tenant"
)

// historyFeature keeps the numbers of the calls of the last seven days.
func historyFeature() feature {
	return feature{
		build: func(p *App) error {
			c := p.started.Config.History
			c.Replica, c.Version, c.Store, c.States = p.replica, p.options.Version, p.store.History(), p.backendStates
			c.Knows = func(capability, tool string) bool {
				_, known := p.tools.catalog.Describe(capability, tool)
				return known
			}
			p.history = history.New(c)
			p.parts.Observe.History = p.history
			p.parts.services = append(p.parts.services, historyadmin.New(historyadmin.Config{
				History: p.history, Tenant: p.tenantSeries, Drains: p.drainMarks}))
			return p.metrics.Add(p.history)
		},
		apply: func(p *App, c *change) {
			if c.reloaded {
				p.history.Mark(history.Reloaded, "")
			}
		},
		run: func(p *App, w *work) { w.loop("history", p.history.Run) },
	}
}

// backendStates returns the backends of all fleets.
func (p *App) backendStates() (all []history.State) {
	for _, f := range p.fleets.routing.Table().Fleets() {
		for _, b := range f.Statuses() {
			all = append(all, history.State{Capability: f.Capability, Backend: b.Addr, Usable: b.Usable})
		}
	}
	return all
}

// tenantSeries returns the series of an existing tenant.
func (p *App) tenantSeries(ctx context.Context, id string) (history.Series, *call.Refusal) {
	if p.auth.roster == nil {
		return history.TenantSeries(tenant.Default, ""), nil
	}
	of, refusal := p.auth.roster.Directory.Settings(ctx, id)
	switch {
	case refusal != nil:
		return history.Series{}, refusal
	case of == nil:
		return history.Series{}, &call.Refusal{Kind: call.NotFound, Reason: "TENANT_UNKNOWN",
			Message: "the tenant does not exist"}
	}
	return history.TenantSeries(of.ID, of.UID()), nil
}

// drainMarks returns the drains of a fleet since a time, as marks.
func (p *App) drainMarks(ctx context.Context, capability string, since time.Time) (marks []history.Mark) {
	changes, _ := p.recent.Changes(ctx)
	for i := range changes {
		c := &changes[i]
		if c.At.After(since) && isDrain(c) && concerns(c, capability) {
			marks = append(marks, history.Mark{At: c.At, Kind: c.What, Replica: c.Replica,
				Text: targetOf(c, "backend")})
		}
	}
	return marks
}

// isDrain reports whether a change drained a backend, or ended that.
func isDrain(c *recent.Change) bool {
	return c.What == "backend.drained" || c.What == "backend.undrained"
}

// concerns reports whether a change is about a capability, or about a backend of any; "": any change.
func concerns(c *recent.Change, capability string) bool {
	of := targetOf(c, "capability")
	return capability == "" || of == "" || of == capability
}

// targetOf returns what a change names.
func targetOf(c *recent.Change, name string) string {
	for _, t := range c.Targets {
		if t.Name == name {
			return t.Value
		}
	}
	return ""
}
