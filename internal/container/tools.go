package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/capgate/capgate/internal/manifest"
)

// ErrNoDiscovery is the error of a container without a discovery tool.
var ErrNoDiscovery = errors.New("it has no discovery tool; give its manifest with --manifest FILE")

// DefaultDiscovery is the discovery tool of a manifest without discovery_tool_name.
const DefaultDiscovery = "list_tools"

// Tools are a container's tools, and their source.
type Tools struct {
	All  []manifest.Tool
	From string // "manifest", or the discovery tool's name
}

// Offers returns the tools in the manifest, or those of the container's discovery tool. m may be nil.
func (c Client) Offers(ctx context.Context, m *manifest.Manifest) (Tools, error) {
	if m != nil && !m.Dynamic {
		return Tools{All: m.Tools, From: "manifest"}, nil
	}
	name := DefaultDiscovery
	if m != nil {
		name = cmp.Or(m.DiscoveryTool, name)
	}
	answer, err := c.Invoke(ctx, Question{Tool: name, Args: []byte("{}"), Session: "discovery"})
	switch {
	case err != nil:
		return Tools{}, fmt.Errorf("the discovery tool %s: %s", name, Explain(err))
	case answer.Failed && m == nil:
		return Tools{}, ErrNoDiscovery
	case answer.Failed:
		return Tools{}, fmt.Errorf("the discovery tool %s failed: %s", name, Clean(answer.Error))
	}
	all, err := manifest.ParseTools(answer.Result)
	if err != nil {
		return Tools{}, fmt.Errorf("the discovery tool %s: %w", name, err)
	}
	return Tools{All: all, From: name}, nil
}
