package selu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// ToolError is the failure of a tool, which the orchestrator shows to its model.
type ToolError struct{ Text string }

func (e *ToolError) Error() string { return "tool failed: " + e.Text }

// Call is a call of a tool.
type Call struct {
	Tool    string
	Args    string // JSON object; default {}
	Config  string // JSON object with the declared credentials; default {}
	Session string // default: the container's
	Thread  string
}

func (c *Client) request(q Call) *livepb.InvokeRequest {
	return &livepb.InvokeRequest{
		ToolName: q.Tool, ArgsJson: []byte(cmp.Or(q.Args, "{}")), ConfigJson: []byte(cmp.Or(q.Config, "{}")),
		SessionId: cmp.Or(q.Session, c.container.Session), CapabilityId: c.container.Capability, ThreadId: q.Thread,
	}
}

// Invoke calls a tool and returns its result, which is JSON. A failure of the tool is a *ToolError.
func (c *Client) Invoke(ctx context.Context, q Call) (result []byte, err error) {
	err = c.try(ctx, func(ctx context.Context) error {
		resp, err := c.rpc.Invoke(ctx, c.request(q))
		if err == nil && resp.GetError() != "" {
			err = &ToolError{resp.GetError()}
		}
		result = resp.GetResultJson()
		return err
	})
	return result, err
}

// StreamInvoke calls a tool and passes each part of its result to part. It does not notice a stream that ends without
// its last chunk.
func (c *Client) StreamInvoke(ctx context.Context, q Call, part func([]byte)) error {
	return c.try(ctx, func(ctx context.Context) error {
		stream, err := c.rpc.StreamInvoke(ctx, c.request(q))
		if err != nil {
			return err
		}
		for {
			chunk, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if chunk.GetError() != "" {
				return &ToolError{chunk.GetError()}
			}
			if part(chunk.GetData()); chunk.GetDone() {
				return nil
			}
		}
	})
}

// Tool is a tool that a capability lists.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// Discover lists the tools of a capability whose manifest has tool_source: dynamic. It tries twice.
func (c *Client) Discover(ctx context.Context, discoveryTool string) (tools []Tool, err error) {
	for range 2 {
		var list []byte
		if list, err = c.Invoke(ctx, Call{Tool: cmp.Or(discoveryTool, "list_tools")}); err != nil {
			continue
		}
		if tools, err = readTools(list); err == nil {
			return tools, nil
		}
	}
	return nil, fmt.Errorf("list the tools of %s: %w", c.container.Capability, err)
}

func readTools(list []byte) ([]Tool, error) {
	var tools []Tool
	if err := json.Unmarshal(list, &tools); err != nil {
		return nil, fmt.Errorf("not an array of tools: %w", err)
	}
	seen := map[string]bool{}
	for _, t := range tools {
		if t.Name == "" || t.Description == "" || len(t.InputSchema) == 0 {
			return nil, fmt.Errorf("tool %q lacks its name, description or input_schema", t.Name)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tool %q is listed twice", t.Name)
		}
		seen[t.Name] = true
	}
	return tools, nil
}
