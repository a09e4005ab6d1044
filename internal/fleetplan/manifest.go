package fleetplan

import (
	"crypto/tls"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/credentials"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/policy/catalog"
)

// withManifest returns a fleet with the manifest's values for settings that the file leaves out.
func withManifest(from *config.Fleet, m *manifest.Manifest) *config.Fleet {
	if m == nil {
		return from
	}
	f := *from
	if !f.Own.Class {
		f.Class = m.Class
		if !f.Own.Affinity {
			f.Affinity.Sessions = m.Class == call.Environment
		}
	}
	if !f.Own.MaxConcurrent && m.Sharing.Shared {
		f.Limit.PerBackend = m.Sharing.MaxConcurrent
	}
	return &f
}

// credentialsOf returns the credentials that calls of a fleet may have: none while its manifest is not known; nil: all.
func credentialsOf(f *config.Fleet, m *manifest.Manifest) *credentials.Names {
	if !f.Enforce {
		return nil
	}
	var declared []string
	if m != nil {
		for i := range m.Credentials {
			declared = append(declared, m.Credentials[i].Name)
		}
	}
	return credentials.New(declared)
}

// authorOf returns the declaration of a fleet's tools in the configuration and the manifest.
func authorOf(f *config.Fleet, m *manifest.Manifest) catalog.Declaration {
	d := withManifest(f, m).Declaration
	d.Manifest, d.Credentials = m, credentialsOf(f, m)
	return d
}

// listed is the manifest of a fleet whose backends list their tools. It is the same as before where it does not differ.
func (p *Planner) listed(f *config.Fleet) *manifest.Manifest {
	features := f.Protocol.Traits().Relayed
	if old := p.fleets[f.Capability]; old != nil && old.from.Tools && old.manifest.Class == f.Class &&
		old.manifest.Features == features {
		return old.manifest
	}
	return &manifest.Manifest{ID: f.Capability, Class: f.Class, Dynamic: true, DiscoveryTool: upstream.DiscoveryTool,
		Features: features}
}

// servedFleet completes a fleet that the process serves. Its backends are the probed ones. secure is the TLS
// configuration of the file.
func servedFleet(f upstream.Fleet, from *config.Fleet, probed *health.Fleet, secure *tls.Config) upstream.Fleet {
	f.Backends, f.Hosts, f.TLS, f.Assertion = probed.Backends, probed.Hosts, secure, from.Assertion
	if from.Protocol.Traits().OwnSessions {
		f.Sessions, f.SessionTTL = from.Affinity.Sessions, from.Affinity.SessionTTL
	}
	return f
}
