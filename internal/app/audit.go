package app

import (
	"os"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
)

// openAudit opens the configured audit log. Without one, changes are only among the last ones in the admin API.
func (p *App) openAudit(cfg *config.Config, metrics *telemetry.Metrics) (err error) {
	a := cfg.Audit
	if a.To == "" {
		p.audit, err = audit.Open(audit.Config{Changed: p.recordChange})
		return err
	}
	c := audit.Config{Path: a.To, Required: a.Required, Queue: a.Queue,
		Replica: p.replica, Version: p.options.Version, Log: p.log, Changed: p.recordChange}
	if a.To == "stdout" {
		c.Path, c.Out = "", os.Stdout
	}
	if p.audit, err = audit.Open(c); err != nil {
		return err
	}
	return metrics.Add(p.audit)
}

// recordChange adds a change to the last ones.
func (p *App) recordChange(c *audit.Change) {
	d := recent.Change{Actor: c.Actor, What: c.What, Tenant: c.Tenant}
	for _, on := range c.Targets {
		d.Targets = append(d.Targets, recent.Target(on))
	}
	p.recent.RecordChange(&d)
}

// written returns the audit log if it has records of calls; nil if not.
func (p *App) written() *audit.Log {
	if p.audit.Written() {
		return p.audit
	}
	return nil
}
