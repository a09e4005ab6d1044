package app

import (
	"net/netip"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/filter/open"
	mcptools "github.com/capgate/capgate/gateway/frontdoor/mcp/tools"
)

// gatewayFeature puts the gateway together of the parts that all other features have added.
func gatewayFeature() feature {
	return feature{build: buildGateway, apply: func(p *App, c *change) {
		if c.reloaded {
			p.gateway.Single(c.Single(p.started.Config.Multi)) // until a restart
		}
		p.gateway.Swap(c.table, c.TLS)
		p.gateway.SetDrain(gateway.Drain(c.Config.Drain))
		p.gateway.SetHosts(hostsOf(c.Config))
		p.gateway.SetMCP(p.mcpOf(c.Config, c.Plan))
		p.tools.changed.Send(mcptools.ViewChange{}) // the names of tools, or what a tenant may use, may be others
	}}
}

// buildGateway completes the parts.
func buildGateway(p *App) (err error) {
	cfg, of := p.started.Config, &p.parts
	of.Clients.Hosts, of.Clients.OpenCalls = hostsOf(cfg), open.For(cfg.ClientLimits.Connections)
	of.Clients.Exempt = append([]netip.Prefix{}, cfg.ClientLimits.Exempt...) // empty: none
	of.Doors.CORS, of.Drain = cfg.CORS, gateway.Drain(cfg.Drain)
	of.Doors.REST.ToolErrors = cfg.REST.ToolErrors
	of.Doors.Services = of.register
	of.Leaving = of.leave
	of.Ready.Loads = func() gateway.ConfigState { return p.fleets.reloader.loads.Load().detail() }
	if of.Admin.Services, err = p.AdminServices(); err != nil {
		return err
	}
	if p.gateway, err = gateway.New(of.Config); err != nil {
		return err
	}
	p.fleets.room.Charge(p.gateway.Sessions())
	p.gateway.Single(p.started.Single(cfg.Multi))
	return nil
}

// register adds the gateway's own services for callers.
func (of *parts) register(g grpc.ServiceRegistrar) {
	for _, register := range of.builtins {
		register(g)
	}
}

// leave ends what would go on after the last call.
func (of *parts) leave() {
	for _, leave := range of.leaving {
		leave()
	}
}
