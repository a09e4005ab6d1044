package settings

import (
	"fmt"

	"github.com/capgate/capgate/internal/toolset"
)

// toolsetWarnings names the entries of toolsets that choose no tool, or another version of one, as far as the file and
// its manifests say so.
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
			if text := s.unmatched(&of.Tools[j]); text != "" {
				all = append(all, fmt.Sprintf("toolsets[%d].tools[%d]: %s", i, j, text))
			}
		}
	}
	return all
}

// unmatched returns why an entry of a toolset chooses no tool, or not the one that it describes; "": it may choose one.
func (s *Settings) unmatched(e *toolset.Entry) string {
	known := false
	for i := range s.Config.Fleets {
		f := &s.Config.Fleets[i]
		if !e.Has(f.Capability) {
			continue
		}
		m := s.ManifestOf(f)
		if m == nil || m.Dynamic {
			return ""
		}
		known = true
		for j := range m.Tools {
			if t := &m.Tools[j]; e.Matches(f.Capability, t.Name) {
				if hash := t.Hash(); e.Changed(hash, true) {
					return fmt.Sprintf("the hash of %s is another one, so its calls need approval: %s", t.Name, hash)
				}
				return ""
			}
		}
	}
	switch {
	case s.Config.Announced(): // further fleets may match
		return ""
	case known:
		return fmt.Sprintf("no tool of %s is %s", e.Capability, e.Tool)
	}
	return fmt.Sprintf("there is no fleet %s", e.Capability)
}
