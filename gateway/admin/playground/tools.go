package playground

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pages sets the page sizes of lists of tools.
var pages = paging.Bounds{Standard: 100, Most: 1000, Reason: invalid}

// item is a tool of a capability. It has no name if the capability's tools are unknown.
type item struct {
	catalog.Tool
	capability string
}

// ListPlaygroundTools implements capgatepb.PlaygroundServer.
func (s *server) ListPlaygroundTools(ctx context.Context,
	req *capgatepb.ListPlaygroundToolsRequest) (*capgatepb.ListPlaygroundToolsResponse, error) {
	identity, err := s.identity(ctx, req)
	if err != nil {
		return nil, err
	}
	page, query, refusal := search.ReadPage(pages, req)
	if refusal != nil {
		return nil, refusal
	}
	verdict, ok := call.ParseVerdict(req.GetPolicy())
	if !ok && req.GetPolicy() != "" {
		return nil, call.InvalidField(invalid, "policy", "it must be allow, ask or block")
	}
	var all []item
	for _, id := range s.Tools.Capabilities() {
		if of := req.GetCapability(); of != "" && of != id || !identity.Sees(id) {
			continue
		}
		for _, i := range s.toolsOf(id) {
			if req.GetDrifted() && !i.Drifted || !query.Matches(i.capability, i.Name, i.Description) {
				continue
			}
			if ok {
				d, refusal := s.decide(ctx, &identity, &i)
				if refusal != nil {
					return nil, refusal
				}
				if d.Verdict != verdict {
					continue
				}
			}
			all = append(all, i)
		}
	}
	listed, next := paging.Slice(page, all, func(i item) string { return i.capability + "\x00" + i.Name })
	resp := &capgatepb.ListPlaygroundToolsResponse{NextPageToken: paging.Token(next),
		TotalSize: restjson.Int32(len(all))}
	for i := range listed {
		if req.GetBrief() {
			listed[i].Schema = nil
		}
		m, err := s.message(ctx, &identity, &listed[i])
		if err != nil {
			return nil, err
		}
		resp.Tools = append(resp.Tools, m)
	}
	return resp, nil
}

// toolsOf returns the tools of a capability by name, or a single item without a name if they are unknown.
func (s *server) toolsOf(capability string) []item {
	tools, known := s.Tools.Tools(capability)
	if !known {
		return []item{{capability: capability}}
	}
	items := make([]item, len(tools))
	for i := range tools {
		items[i] = item{tools[i], capability}
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.Name, b.Name) })
	return items
}

func (s *server) decide(ctx context.Context, identity *tenant.Identity, t *item) (policy.Decision, *call.Refusal) {
	return s.Decider.Fetch(ctx, &call.Call{Tenant: identity.Tenant, User: identity.User, Agent: identity.Agent,
		Method: call.Invoke, Capability: t.capability, Tool: t.Name})
}

// message returns a tool with the decision on a call by the identity.
func (s *server) message(ctx context.Context, identity *tenant.Identity, t *item) (*capgatepb.PlaygroundTool, error) {
	d, refusal := s.decide(ctx, identity, t)
	if refusal != nil {
		return nil, refusal
	}
	m := &capgatepb.PlaygroundTool{Capability: t.capability, Tool: t.Name, Description: t.Description,
		Policy: d.Verdict.String(), Level: d.Level.String(), Drifted: t.Drifted,
		Class: s.Tools.Class(t.capability).String()}
	if t.Schema != nil {
		m.InputSchema = new(structpb.Struct)
		if err := protojson.Unmarshal(t.Schema.JSON(), m.GetInputSchema()); err != nil {
			return nil, status.Error(codes.Internal, "the schema of a tool cannot be written as JSON")
		}
	}
	return m, nil
}
