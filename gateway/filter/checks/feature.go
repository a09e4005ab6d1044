package checks

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
)

// Feature rejects calls of an MCP server's features except those of front doors that serve features: they check what a
// call leads to. A completion reveals a prompt or a resource that rules decide about under another name. Other
// capabilities have no features. Features are listed only by the gateway itself, whose calls have no such check.
func Feature(c *filter.Call) *call.Refusal {
	relayed := c.Fleet.Protocol().Traits().Relayed
	switch {
	case relayed && c.Info.Tool == manifest.ListFeatures:
		return refusedListing
	case relayed && !c.Feature && manifest.IsFeature(c.Info.Tool):
		return refusedFeature
	case !relayed && c.Feature && c.Info.Tool == manifest.ReadResource:
		return noResources
	case !relayed && c.Feature:
		return noPrompts
	}
	return nil
}

var (
	refusedListing = &call.Refusal{Kind: call.NotFound, Reason: "TOOL_UNKNOWN",
		Message: "the capability has no tool " + manifest.ListFeatures}
	refusedFeature = &call.Refusal{Kind: call.FailedPrecondition, Reason: "MCP_REQUIRED",
		Message: "prompts, resources and completions of an MCP server are not tools: they are served over MCP, at " +
			"/mcp, and prompts and resources also below /v1/capabilities/{capability_id}"}
	noResources = &call.Refusal{Kind: call.NotFound, Reason: "RESOURCE_UNKNOWN",
		Message: "the capability is not an MCP server, and has no resources"}
	noPrompts = &call.Refusal{Kind: call.NotFound, Reason: "PROMPT_UNKNOWN",
		Message: "the capability is not an MCP server, and has no prompts"}
)
