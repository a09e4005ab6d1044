package playground

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// ListPlaygroundTools implements capgatepb.PlaygroundServer.
func (s *server) ListPlaygroundTools(ctx context.Context,
	req *capgatepb.ListPlaygroundToolsRequest) (*capgatepb.ListPlaygroundToolsResponse, error) {
	who, err := s.identity(ctx, req)
	if err != nil {
		return nil, err
	}
	size, after, refusal := paging.Read(req, defaultPage, maxPage, invalid)
	if refusal != nil {
		return nil, refusal
	}
	resp, last := &capgatepb.ListPlaygroundToolsResponse{}, ""
	for _, id := range s.Tools.Capabilities() {
		if of := req.GetCapability(); of != "" && of != id || !who.Sees(id) {
			continue
		}
		for _, t := range s.toolsOf(id) {
			position := paging.Name(id, t.Name)
			if position <= after {
				continue
			}
			if len(resp.GetTools()) == size {
				resp.NextPageToken = paging.Token(last)
				return resp, nil
			}
			m, err := s.message(ctx, &who, id, &t)
			if err != nil {
				return nil, err
			}
			resp.Tools = append(resp.Tools, m)
			last = position
		}
	}
	return resp, nil
}

// toolsOf returns the tools of a capability by their positions, or one without a name if they are not known.
func (s *server) toolsOf(capability string) []catalog.Tool {
	tools, known := s.Tools.Tools(capability)
	if !known {
		return []catalog.Tool{{}}
	}
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b catalog.Tool) int {
		return compare(paging.Name(capability, a.Name), paging.Name(capability, b.Name))
	})
	return tools
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (s *server) message(ctx context.Context, who *tenant.Identity, capability string,
	t *catalog.Tool) (*capgatepb.PlaygroundTool, error) {
	d, refusal := s.Decider.Fetch(ctx, &call.Call{Tenant: who.Tenant, User: who.User, Agent: who.Agent,
		Method: call.Invoke, Capability: capability, Tool: t.Name})
	if refusal != nil {
		return nil, refusal
	}
	m := &capgatepb.PlaygroundTool{Capability: capability, Tool: t.Name, Description: t.Description,
		Policy: d.Verdict.String(), Level: d.Level.String(), Drifted: t.Drifted,
		Class: s.Tools.Class(capability).String()}
	if t.Schema != nil {
		m.InputSchema = new(structpb.Struct)
		if err := protojson.Unmarshal(t.Schema.JSON(), m.GetInputSchema()); err != nil {
			return nil, status.Error(codes.Internal, "the schema of a tool cannot be written as JSON")
		}
	}
	return m, nil
}
