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
	a := p.started.Config.Audit
	c := audit.Config{Changed: p.recordChange}
	if a.To != "" {
		c = audit.Config{Path: a.To, Required: a.Required,
			Replica: p.replica, Version: p.options.Version, Log: p.log, Changed: p.recordChange}
	}
	if a.To == "stdout" {
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
