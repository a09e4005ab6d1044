package gateway

// Readiness says whether the gateway wants calls, and which fleets can take them.
func (g *Gateway) Readiness() Readiness {
	r := Readiness{Ready: true, Draining: g.draining.Load()}
	if g.cfg.Redis != nil {
		r.Redis = g.cfg.Redis()
	}
	if g.cfg.Warnings != nil {
		r.Warnings = g.cfg.Warnings()
	}
	if g.cfg.Unread != nil {
		r.Unread = g.cfg.Unread()
		r.Ready = len(r.Unread) == 0
	}
	if g.cfg.Audit != nil && g.cfg.Audit.Stats().Failing {
		r.Audit, r.Ready = "failing", r.Ready && !g.cfg.Audit.Blocked() // who refuses soonest would get the most calls
	}
	for _, f := range g.cfg.Router.Table().Fleets() {
		fr := FleetReadiness{Capability: f.Capability, Backends: len(f.Backends), Usable: f.Stats().Usable}
		r.Fleets = append(r.Fleets, fr)
	}
	if g.cfg.Loads != nil {
		loads := g.cfg.Loads()
		r.Config = &loads
	}
	return r
}
