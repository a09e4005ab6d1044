package listing

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	defaultPage = 50
	maxPage     = 200
	maxTools    = 1000
	// asking is how many capabilities are looked at together.
	asking = 16
)

// Tools is what is known of capabilities. It answers from memory.
type Tools interface {
	// Capabilities are the ids of all, sorted. They must not be changed.
	Capabilities() []string
	Class(capability string) call.Class
	// Tools are those of a capability in their author's order; not known where nobody has
	// said what they are.
	Tools(capability string) (tools []catalog.Tool, known bool)
}

// Decider says what becomes of calls. It may wait until ctx ends.
type Decider interface {
	Fetch(ctx context.Context, c *call.Call) (policy.Decision, *call.Refusal)
}

// Server is capgate.v1.Catalog, but for what a wing of the gateway lists.
type Server struct {
	capgatepb.UnimplementedCatalogServer
	tools   Tools
	decider Decider
	status  func(*call.Refusal) *status.Status
}

// New makes it. toStatus is the gateway's table of gRPC codes for refusals.
func New(tools Tools, decider Decider, toStatus func(*call.Refusal) *status.Status) *Server {
	return &Server{tools: tools, decider: decider, status: toStatus}
}

// ListCapabilities implements capgatepb.CatalogServer.
func (s *Server) ListCapabilities(ctx context.Context,
	req *capgatepb.ListCapabilitiesRequest) (*capgatepb.ListCapabilitiesResponse, error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	size, after, refusal := paging.Read(req, defaultPage, maxPage, "LIST_INVALID")
	if refusal != nil {
		return nil, s.refused(refusal)
	}
	resp := &capgatepb.ListCapabilitiesResponse{}
	for next := visible(s.tools.Capabilities(), caller, after); ; {
		ids := next()
		if len(ids) == 0 {
			return resp, Tag(resp, &resp.Etag)
		}
		usable, err := s.usable(ctx, caller, ids)
		if err != nil {
			return nil, err
		}
		for i, c := range usable {
			if c == nil {
				continue
			}
			if len(resp.GetCapabilities()) == size {
				resp.NextPageToken = paging.Token(resp.GetCapabilities()[size-1].GetId())
				return resp, Tag(resp, &resp.Etag)
			}
			c.Id = ids[i]
			resp.Capabilities = append(resp.Capabilities, c)
		}
	}
}

// visible gives out the ids behind one, a few at a time, of what there is for the caller.
func visible(rest []string, caller tenant.Identity, after string) func() []string {
	at, found := slices.BinarySearch(rest, after)
	if found {
		at++
	}
	rest = rest[at:]
	return func() (ids []string) {
		for ; len(rest) > 0 && len(ids) < asking; rest = rest[1:] {
			if caller.Settings.Sees(rest[0]) {
				ids = append(ids, rest[0])
			}
		}
		return ids
	}
}

// usable looks at some capabilities at once; nil are those of which the caller may use
// nothing.
func (s *Server) usable(ctx context.Context, caller tenant.Identity, ids []string) ([]*capgatepb.Capability, error) {
	all := make([]*capgatepb.Capability, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	for i, id := range ids {
		group.Go(func() error {
			return recovery.Do("listing", func() (err error) {
				all[i], _, err = s.look(ctx, caller, id)
				return err
			})
		})
	}
	return all, group.Wait()
}

// GetCapability implements capgatepb.CatalogServer.
func (s *Server) GetCapability(ctx context.Context,
	req *capgatepb.GetCapabilityRequest) (*capgatepb.GetCapabilityResponse, error) {
	c, _, err := s.find(ctx, req.GetCapabilityId())
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.GetCapabilityResponse{Capability: c}
	return resp, Tag(resp, &resp.Etag)
}

// ListTools implements capgatepb.CatalogServer.
func (s *Server) ListTools(ctx context.Context, req *capgatepb.ListToolsRequest) (*capgatepb.ListToolsResponse,
	error) {
	_, tools, err := s.find(ctx, req.GetCapabilityId())
	if err != nil {
		return nil, err
	}
	size, after, refusal := paging.Read(req, max(len(tools), 1), maxTools, "LIST_INVALID")
	if refusal != nil {
		return nil, s.refused(refusal)
	}
	resp := &capgatepb.ListToolsResponse{}
	// the order is their author's, so it is the tool itself that a token names; one that is gone begins anew
	if after != "" {
		tools = tools[1+slices.IndexFunc(tools, func(t usableTool) bool { return t.Name == after }):]
	}
	if len(tools) > size {
		tools = tools[:size]
		resp.NextPageToken = paging.Token(tools[size-1].Name)
	}
	for _, t := range tools {
		said, err := toolOf(&t)
		if err != nil {
			return nil, status.Error(codes.Internal, "the schema of a tool cannot be written as JSON")
		}
		resp.Tools = append(resp.Tools, said)
	}
	return resp, Tag(resp, &resp.Etag)
}

// find looks at one capability for whoever asks.
func (s *Server) find(ctx context.Context, id string) (*capgatepb.Capability, []usableTool, error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return nil, nil, err
	}
	if _, there := slices.BinarySearch(s.tools.Capabilities(), id); !there || !caller.Settings.Sees(id) {
		return nil, nil, s.refused(call.UnknownCapability(id))
	}
	c, tools, err := s.look(ctx, caller, id)
	if err == nil && c == nil {
		err = s.refused(call.UnknownCapability(id))
	}
	return c, tools, err
}

// usableTool is a tool that a caller may use, and how.
type usableTool struct {
	catalog.Tool
	verdict call.Verdict
}

// look finds out what of a capability a caller may use; nil: nothing.
func (s *Server) look(ctx context.Context, caller tenant.Identity, id string) (*capgatepb.Capability, []usableTool,
	error) {
	tools, known := s.tools.Tools(id)
	c := &capgatepb.Capability{Id: id, Name: paging.Name("capabilities", id), Class: s.tools.Class(id).String(),
		ToolsKnown: known}
	if !known { // one that nobody has heard of stands for them
		verdict, err := s.ask(ctx, caller, id, "")
		if err != nil || verdict == call.Block {
			return nil, nil, err
		}
		return c, nil, nil
	}
	var usable []usableTool
	for _, t := range tools {
		verdict, err := s.ask(ctx, caller, id, t.Name)
		if err != nil {
			return nil, nil, err
		}
		if verdict != call.Block {
			usable = append(usable, usableTool{t, verdict})
			c.Tools = append(c.Tools, t.Name)
		}
	}
	if len(usable) == 0 {
		return nil, nil, nil
	}
	return c, usable, nil
}

func (s *Server) ask(ctx context.Context, caller tenant.Identity, capability, tool string) (call.Verdict, error) {
	d, refusal := s.decider.Fetch(ctx, &call.Call{
		Tenant: caller.Tenant, User: caller.User, Agent: caller.Agent, Method: call.Invoke, Capability: capability,
		Tool: tool,
	})
	if refusal != nil {
		return call.Block, s.refused(refusal)
	}
	return d.Verdict, nil
}

func (s *Server) refused(r *call.Refusal) error { return s.status(r).Err() }
