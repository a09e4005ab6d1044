package checks

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
)

// Feature rejects calls of an MCP server's features that were not made over MCP. The front door of MCP alone checks
// what they lead to: a completion reveals a prompt or a resource that rules decide about under another name. Features
// are listed only by the gateway itself, whose calls have no such check.
func Feature(c *filter.Call) *call.Refusal {
	switch {
	case !c.Fleet.Protocol().Traits().Relayed:
	case c.Info.Tool == manifest.ListFeatures:
		return refusedListing
	case manifest.IsFeature(c.Info.Tool) && c.Client.Protocol != call.MCP:
		return refusedFeature
	}
	return nil
}

var (
	refusedListing = &call.Refusal{Kind: call.NotFound, Reason: "TOOL_UNKNOWN",
		Message: "the capability has no tool " + manifest.ListFeatures}
	refusedFeature = &call.Refusal{Kind: call.FailedPrecondition, Reason: "MCP_REQUIRED",
		Message: "prompts, resources and completions of an MCP server are served over MCP alone, at /mcp"}
)
