package listing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/tenant"
)

// discovered is a tool in the response of a discovery tool, see manifest.ParseTools.
type discovered struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
	Recommended string          `json:"recommended_policy,omitempty"`
	Terminal    bool            `json:"terminal_on_success,omitempty"`
}

var refusedUnknown = &call.Refusal{Kind: call.Unavailable, Reason: "TOOLS_UNKNOWN", RetryAfter: time.Second,
	Message: "the tools of this capability are not known yet: the gateway lists them once a backend is up"}

// Discovered returns the tools of a capability that a caller may use, as the capability's discovery tool lists them.
// It only reads the catalog. As for every call, the scope invoke is sufficient. The error is a *call.Refusal, or that
// of ctx.
func (s *Server) Discovered(ctx context.Context, caller tenant.Identity, id string) ([]byte, error) {
	if refusal := s.Undiscovered(id); refusal != nil {
		return nil, refusal
	}
	tools, _ := s.tools.Tools(id)
	list := []discovered{}
	for _, t := range tools {
		d, refusal := s.fetch(ctx, &caller, id, t.Name)
		switch {
		case refusal != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case refusal != nil:
			return nil, refusal
		case d.Verdict == call.Block:
			continue
		}
		one := discovered{Name: t.Name, Description: t.Description, Schema: json.RawMessage("{}"),
			Terminal: t.TerminalOnSuccess}
		if t.Schema != nil {
			one.Schema = t.Schema.JSON()
		}
		if t.Output != nil {
			one.Output = t.Output.JSON()
		}
		if t.Recommends {
			one.Recommended = t.Recommended.String()
		}
		list = append(list, one)
	}
	text, err := plainjson.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encode the tools of %s: %w", id, err)
	}
	return text, nil
}
