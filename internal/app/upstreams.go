package app

import (
	"crypto/tls"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
)

// upstreamsFeature serves backends that are no capabilities.
func upstreamsFeature() feature {
	return feature{
		build: func(p *App) error {
			p.fleets.upstreams = protocols.Open(upstream.Options{Version: p.options.Version, Log: p.log, Room: &p.fleets.room,
				Changed: func(capability string) { p.tools.discovery.Changed(capability) }})
			p.parts.Routing.Local = p.fleets.upstreams.Serve
			return nil
		},
		apply: func(p *App, c *change) { p.fleets.upstreams.Set(c.served) },
		close: func(p *App) { p.fleets.upstreams.Close() },
	}
}

// listed is the manifest of a fleet whose backends list their tools. It is the same as before where it does not differ.
func (p *planner) listed(f *config.Fleet) *manifest.Manifest {
	if old := p.fleets[f.Capability]; old != nil && old.from.Tools && old.manifest.Class == f.Class {
		return old.manifest
	}
	return &manifest.Manifest{ID: f.Capability, Class: f.Class, Dynamic: true, DiscoveryTool: upstream.DiscoveryTool}
}

// servedFleet completes a fleet that the process serves. Its backends are those that are probed, unless they are URLs,
// which cannot register. secure is TLS as the file has it.
func servedFleet(f upstream.Fleet, from *config.Fleet, probed *health.Fleet, secure *tls.Config) upstream.Fleet {
	f.Backends, f.Hosts, f.TLS = probed.Backends, probed.Hosts, secure
	if protocols.Of(from).URLs {
		f.Backends, f.Hosts = from.Addrs(), nil
	}
	if from.Settings.Traits().OwnSessions {
		f.Sessions, f.SessionTTL = from.Affinity.Sessions, from.Affinity.SessionTTL
	}
	return f
}
