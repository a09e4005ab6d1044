package app

import (
	"os"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/recent"
)

// auditFeature opens the configured audit log. Without one, changes are only among the last ones in the admin API.
func auditFeature() feature {
	return feature{
		build: openAudit,
		close: func(p *App) {
			if p.audit != nil {
				p.audit.Close()
			}
		},
	}
}

func openAudit(p *App) (err error) {
	c := p.started.Config.Audit
	c.Replica, c.Version, c.Log, c.Changed = p.replica, p.options.Version, p.log, p.recordChange
	if c.Path == "stdout" {
		c.Path, c.Out = "", os.Stdout
	}
	if p.audit, err = audit.Open(c); err != nil || !p.audit.Written() {
		return err
	}
	p.parts.Observe.Audit = p.audit // has records of calls
	return p.metrics.Add(p.audit)
}

// recordChange adds a change to the last ones.
func (p *App) recordChange(c *audit.Change) {
	d := recent.Change{Actor: c.Actor, What: c.What, Tenant: c.Tenant}
	for _, on := range c.Targets {
		d.Targets = append(d.Targets, recent.Target(on))
	}
	p.recent.RecordChange(&d)
}
