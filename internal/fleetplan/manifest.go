package app

import (
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
		f.MaxConcurrent = m.Sharing.MaxConcurrent
	}
	return &f
}

// credentialsOf are those that calls of a fleet may bring: while its manifest is not known none,
// and nil where they may bring anything.
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
	return catalog.Declaration{
		Class: withManifest(f, m).Class, Manifest: m, Fleet: f.Policy, Validate: f.Validate, Unguarded: !f.DriftGuard,
		Interval: f.Discovery.Interval, Timeout: f.Discovery.Timeout, Credentials: credentialsOf(f, m),
	}
}
