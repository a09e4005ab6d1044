package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// Catalog holds the known capabilities and tools.
type Catalog interface {
	Capabilities() []string
	Inspect(id string) (catalog.Listing, bool)
}

// shownNames is the maximum number of names in an error.
const shownNames = 20

// known rejects a rule about an unknown tenant, capability or tool, which is usually a typo. The error is a
// *call.Refusal; force is appended to its message and describes the effect of the force option.
func (s *server) known(ctx context.Context, r *policy.Rule, force string) error {
	if r.Tenant != "" {
		if err := s.Tenants.Check(ctx, r.Tenant); err != nil {
			return err
		}
	}
	if s.Catalog == nil {
		return nil
	}
	if r.Capability == policy.Any {
		return s.knownToSome(r.Tool, force)
	}
	found, there := s.Catalog.Inspect(r.Capability)
	if !there {
		all := s.Catalog.Capabilities()
		return &call.Refusal{Kind: call.NotFound, Reason: "CAPABILITY_UNKNOWN",
			Metadata: map[string]string{"capability": r.Capability},
			Message: fmt.Sprintf("there is no capability %q whose tools rules decide on%s; there are: %s%s",
				r.Capability, nearest.Hint(r.Capability, all), nearest.List(all, shownNames), force)}
	}
	if r.Tool == policy.Any || !found.Known || found.Features && isFeature(r.Tool) {
		return nil
	}
	return unknownTool(r.Tool, "the capability "+r.Capability+" has", namesOf(&found), force)
}

// knownToSome rejects a tool that no capability has, if the tools of all capabilities are known.
func (s *server) knownToSome(tool, force string) error {
	if tool == policy.Any {
		return nil
	}
	var names []string
	for _, id := range s.Catalog.Capabilities() {
		found, there := s.Catalog.Inspect(id)
		if there && (!found.Known || found.Features && isFeature(tool)) {
			return nil
		}
		names = append(names, namesOf(&found)...)
	}
	return unknownTool(tool, "the capabilities have", names, force)
}

func namesOf(l *catalog.Listing) []string {
	names := make([]string, len(l.Tools))
	for i := range l.Tools {
		names[i] = l.Tools[i].Name
	}
	return names
}

// isFeature reports whether a tool may be a feature of an MCP server. Which prompts exist is not checked: each replica
// knows only those that its callers have listed.
func isFeature(tool string) bool {
	prompt, is := strings.CutPrefix(tool, manifest.PromptPrefix)
	return manifest.IsFeature(tool) && (!is || manifest.CheckPrompt(prompt) == nil)
}

// unknownTool returns nil if the tool is one of the names.
func unknownTool(tool, owner string, names []string, force string) error {
	for _, name := range names {
		if name == tool {
			return nil
		}
	}
	return &call.Refusal{Kind: call.NotFound, Reason: "TOOL_UNKNOWN", Metadata: map[string]string{"tool": tool},
		Message: fmt.Sprintf("there is no tool %q%s; %s: %s%s", tool, nearest.Hint(tool, names), owner,
			nearest.List(names, shownNames), force)}
}
