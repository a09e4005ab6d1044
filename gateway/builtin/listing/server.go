package listing

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	maxTools = 1000
	// batchSize is the number of capabilities that are evaluated at the same time.
	batchSize = 16
)

// pages sets the page sizes of lists of capabilities.
var pages = paging.Bounds{Standard: 50, Most: 200, Reason: "LIST_INVALID"}

// Tools holds the known capabilities and tools, in memory.
type Tools interface {
	// Capabilities returns all ids, sorted. The result must not be changed.
	Capabilities() []string
	Class(capability string) call.Class
	// Tools returns a capability's tools in the order of their author. known is false for a capability without a
	// manifest or a discovery.
	Tools(capability string) (tools []catalog.Tool, known bool)
}

// Decider decides on calls. It may wait until ctx ends.
type Decider interface {
	Fetch(ctx context.Context, c *call.Call) (policy.Decision, *call.Refusal)
}

// Server implements capgate.v1.Catalog except ListEngines, which gateway/engine adds.
type Server struct {
	capgatepb.UnimplementedCatalogServer
	tools   Tools
	decider Decider
}

// New returns a Server.
func New(tools Tools, decider Decider) *Server { return &Server{tools: tools, decider: decider} }

// ListCapabilities implements capgatepb.CatalogServer.
func (s *Server) ListCapabilities(ctx context.Context,
	req *capgatepb.ListCapabilitiesRequest) (*capgatepb.ListCapabilitiesResponse, error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	page, refusal := pages.Read(req)
	if refusal != nil {
		return nil, status.Answer(refusal).Err()
	}
	resp := &capgatepb.ListCapabilitiesResponse{}
	for next := visible(s.tools.Capabilities(), caller, page.After); ; {
		ids := next()
		if len(ids) == 0 {
			return resp, Tag(resp, &resp.Etag)
		}
		usable, err := s.usableCapabilities(ctx, caller, ids)
		if err != nil {
			return nil, err
		}
		for i, c := range usable {
			if c == nil {
				continue
			}
			if len(resp.GetCapabilities()) == page.Size {
				resp.NextPageToken = paging.Token(resp.GetCapabilities()[page.Size-1].GetId())
				return resp, Tag(resp, &resp.Etag)
			}
			c.Id = ids[i]
			resp.Capabilities = append(resp.Capabilities, c)
		}
	}
}

// visible returns an iterator over batches of the visible ids after one.
func visible(rest []string, caller tenant.Identity, after string) func() []string {
	at, found := slices.BinarySearch(rest, after)
	if found {
		at++
	}
	rest = rest[at:]
	return func() (ids []string) {
		for ; len(rest) > 0 && len(ids) < batchSize; rest = rest[1:] {
			if caller.Sees(rest[0]) {
				ids = append(ids, rest[0])
			}
		}
		return ids
	}
}

// usableCapabilities evaluates a batch of capabilities. An entry is nil if the caller may use none of its tools.
func (s *Server) usableCapabilities(ctx context.Context, caller tenant.Identity,
	ids []string) ([]*capgatepb.Capability, error) {
	all := make([]*capgatepb.Capability, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	for i, id := range ids {
		group.Go(func() error {
			return recovery.Do("listing", func() error {
				e, err := s.evaluate(ctx, caller, id)
				all[i] = e.capability
				return err
			})
		})
	}
	return all, group.Wait()
}

// GetCapability implements capgatepb.CatalogServer.
func (s *Server) GetCapability(ctx context.Context,
	req *capgatepb.GetCapabilityRequest) (*capgatepb.GetCapabilityResponse, error) {
	e, err := s.find(ctx, req.GetCapabilityId())
	if err == nil && e.capability == nil {
		err = status.Answer(call.UnknownCapability(req.GetCapabilityId(), "")).Err()
	}
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.GetCapabilityResponse{Capability: e.capability}
	return resp, Tag(resp, &resp.Etag)
}

// ListTools implements capgatepb.CatalogServer.
func (s *Server) ListTools(ctx context.Context, req *capgatepb.ListToolsRequest) (*capgatepb.ListToolsResponse,
	error) {
	e, err := s.find(ctx, req.GetCapabilityId())
	if err == nil && e.capability == nil && e.empty == unsaid {
		err = status.Answer(call.UnknownCapability(req.GetCapabilityId(), "")).Err()
	}
	if err != nil {
		return nil, err
	}
	tools := e.tools
	page, refusal := paging.Bounds{Standard: max(len(tools), 1), Most: maxTools, Reason: pages.Reason}.Read(req)
	if refusal != nil {
		return nil, status.Answer(refusal).Err()
	}
	resp := &capgatepb.ListToolsResponse{}
	resp.Reason, resp.Notice = e.empty.explain()
	// the order is that of the author, so a token names the last tool; if that tool is gone, the list starts again
	if page.After != "" {
		tools = tools[1+slices.IndexFunc(tools, func(t UsableTool) bool { return t.Name == page.After }):]
	}
	if len(tools) > page.Size {
		tools = tools[:page.Size]
		resp.NextPageToken = paging.Token(tools[page.Size-1].Name)
	}
	for _, t := range tools {
		said, err := toolOf(&t)
		if err != nil {
			return nil, grpcstatus.Error(codes.Internal, "the schema of a tool cannot be written as JSON")
		}
		resp.Tools = append(resp.Tools, said)
	}
	return resp, Tag(resp, &resp.Etag)
}

// find returns one capability for the caller.
func (s *Server) find(ctx context.Context, id string) (evaluated, error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return evaluated{}, err
	}
	if _, there := slices.BinarySearch(s.tools.Capabilities(), id); !there || !caller.Sees(id) {
		return evaluated{}, status.Answer(call.UnknownCapability(id, "")).Err()
	}
	return s.evaluate(ctx, caller, id)
}
