package settings

import (
	"context"
	"fmt"
	"slices"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
)

// toolsetWarnings names the entries of toolsets that choose no tool, or another version of one, or whose fixed
// arguments do not match its schema, as far as the file and its manifests say so.
func (s *Settings) toolsetWarnings() (all []string) {
	c := s.Config
	groups := false
	for i := range c.Issuers {
		groups = groups || c.Issuers[i].Claims.Groups != ""
	}
	for i := range c.Toolsets {
		of := &c.Toolsets[i]
		if len(of.Groups) > 0 && !groups {
			all = append(all, fmt.Sprintf("toolsets[%d]: no caller has it, because no issuer has claims.groups", i))
		}
		for j := range of.Tools {
			if text := of.Tools[j].Problem(context.Background(), manifests{s}, c.Announced()); text != "" {
				all = append(all, fmt.Sprintf("toolsets[%d].tools[%d]: %s", i, j, text))
			}
		}
	}
	return all
}

// manifests are the tools of the fleets in the file, as far as their manifests have them. It implements
// toolset.Catalog.
type manifests struct{ of *Settings }

// Capabilities implements toolset.Catalog.
func (m manifests) Capabilities() (all []string) {
	for i := range m.of.Config.Fleets {
		all = append(all, m.of.Config.Fleets[i].Capability)
	}
	return all
}

// Visit implements toolset.Catalog.
func (m manifests) Visit(capability string, visit func(*manifest.Tool) bool) (known, features bool) {
	fleets := m.of.Config.Fleets
	i := slices.IndexFunc(fleets, func(f config.Fleet) bool { return f.Capability == capability })
	if i < 0 {
		return false, false
	}
	of := m.of.ManifestOf(&fleets[i])
	if of == nil || of.Dynamic {
		return false, false
	}
	for j := range of.Tools {
		if !visit(&of.Tools[j]) {
			break
		}
	}
	return true, of.Features
}
