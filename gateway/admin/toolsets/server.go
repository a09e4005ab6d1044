package toolsets

import (
	"context"
	"errors"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pages sets the page sizes of lists of toolsets.
var pages = paging.Bounds{Standard: 100, Most: 1000, Reason: "TOOLSET_INVALID"}

// Config configures the service. Toolsets and Catalog are required.
type Config struct {
	Toolsets *toolset.Manager
	Catalog  *catalog.Catalog
	Versions catalog.Versions // optional; without it, changed tools are shown without their earlier versions
	Tenants  *tenant.Roster   // nil means only tenant.Default exists
	More     func() bool      // reports whether there may be fleets that the catalog does not have yet
	Audit    *audit.Log       // audit log of changes; optional
}

// New returns the service.
func New(cfg Config) admin.Service {
	s := &server{Config: cfg, stored: admin.Stored{Kind: toolset.Kind, Objects: cfg.Toolsets, Tenants: cfg.Tenants,
		Audit: cfg.Audit, Invalid: pages.Reason, Changed: "TOOLSET_CHANGED", Full: "TOOLSETS_FULL",
		Unavailable: "TOOLSETS_UNAVAILABLE"}}
	service := admin.NewService[capgatepb.ToolsetsServer](s, capgatepb.RegisterToolsetsServer,
		capgatepb.RegisterToolsetsHandlerServer)
	service.Fault = s.stored.Fault
	service.Large = map[string]int{capgatepb.Toolsets_SetToolset_FullMethodName: toolset.MaxText}
	return service
}

// server implements capgate.v1.Toolsets.
type server struct {
	capgatepb.UnimplementedToolsetsServer
	Config
	stored admin.Stored
}

var refusedInFile = &call.Refusal{Kind: call.FailedPrecondition, Reason: "TOOLSET_IN_FILE",
	Message: "the gateway's configuration has a toolset of this name for these callers; change it there"}

// ListToolsets implements capgatepb.ToolsetsServer.
func (s *server) ListToolsets(ctx context.Context,
	req *capgatepb.ListToolsetsRequest) (*capgatepb.ListToolsetsResponse, error) {
	page, query, refusal := search.ReadPage(pages, req)
	if refusal != nil {
		return nil, refusal
	}
	v, err := s.viewOf(ctx, req.GetTenant())
	if err != nil {
		return nil, err
	}
	var all []listed
	for i, set := range s.Toolsets.Sets().All() {
		if v.shows(set) && (len(query) == 0 || query.Matches(v.texts(set)...)) &&
			(!req.GetChanged() || s.message(ctx, v, set, false).GetChangedCount() > 0) {
			all = append(all, listed{positionOf(set, i), set})
		}
	}
	sortByPosition(all)
	some, next := paging.Slice(page, all, func(l listed) string { return l.position })
	resp := &capgatepb.ListToolsetsResponse{NextPageToken: paging.Token(next), TotalSize: restjson.Int32(len(all))}
	for _, one := range some {
		resp.Toolsets = append(resp.Toolsets, s.message(ctx, v, one.set, false))
	}
	return resp, nil
}

// GetToolset implements capgatepb.ToolsetsServer.
func (s *server) GetToolset(ctx context.Context, req *capgatepb.GetToolsetRequest) (*capgatepb.GetToolsetResponse,
	error) {
	t, err := s.get(ctx, req.GetToolsetName(), req)
	return &capgatepb.GetToolsetResponse{Toolset: t}, err
}

func (s *server) get(ctx context.Context, name string, req admin.OfTenant) (*capgatepb.Toolset, error) {
	of, err := admin.TenantOf(ctx, s.Tenants, req, pages.Reason)
	if err != nil {
		return nil, err
	}
	v, err := s.viewOf(ctx, of)
	if err != nil {
		return nil, err
	}
	set, err := s.find(name, of, v.uids[of])
	if err != nil {
		return nil, err
	}
	return s.message(ctx, v, set, true), nil
}

// find returns a toolset: the stored one of a tenant, or else the first that is for its callers.
func (s *server) find(name, tenant, uid string) (found *toolset.Set, err error) {
	for _, set := range s.Toolsets.Sets().All() {
		switch r := set.Record(); {
		case set.Name() != name:
		case r != nil && r.Tenant == tenant && r.UID == uid:
			return set, nil
		case found == nil && (tenant == "" && r == nil || set.IsFor(tenant, uid)):
			found = set
		}
	}
	if found == nil {
		return nil, refusedUnknown(name)
	}
	return found, nil
}

func refusedUnknown(name string) *call.Refusal {
	return &call.Refusal{Kind: call.NotFound, Reason: "TOOLSET_UNKNOWN",
		Message: "there is no toolset " + call.Quote(name) +
			"; capgate toolsets list, or GET /v1/toolsets, lists them all"}
}

// SetToolset implements capgatepb.ToolsetsServer.
func (s *server) SetToolset(ctx context.Context, req *capgatepb.SetToolsetRequest) (*capgatepb.SetToolsetResponse,
	error) {
	r, err := s.stored.Record(ctx, req.GetToolset(), req.GetToolset().GetName())
	if err == nil {
		r.Text, err = textOf(req.GetToolset())
	}
	if err == nil {
		err = s.check(r)
	}
	if err == nil {
		err = s.stored.Write(ctx, r, req.GetToolset().GetEtag(), "set")
	}
	if err != nil {
		return nil, err
	}
	t, err := s.get(ctx, req.GetToolset().GetName(), req.GetToolset())
	return &capgatepb.SetToolsetResponse{Toolset: t}, err
}

// check rejects a toolset that is wrong, or that no caller would get because of one of the configuration.
func (s *server) check(r *stored.Record) error {
	t, err := s.Toolsets.Parse(r.Text)
	if err != nil {
		return invalid(err)
	}
	if r.Tenant != "" {
		t.Tenants = []string{r.Tenant}
	}
	for _, set := range s.Toolsets.Sets().All() {
		if set.Record() == nil && set.Toolset().Hides(t) {
			return refusedInFile
		}
	}
	return nil
}

// DeleteToolset implements capgatepb.ToolsetsServer.
func (s *server) DeleteToolset(ctx context.Context,
	req *capgatepb.DeleteToolsetRequest) (*capgatepb.DeleteToolsetResponse, error) {
	name := req.GetToolsetName()
	of, err := s.stored.Delete(ctx, req, name, req.GetEtag())
	if errors.Is(err, stored.ErrUnknown) {
		if set, _ := s.find(name, of, ""); set != nil && set.Record() == nil {
			return nil, refusedInFile
		}
		return nil, refusedUnknown(name)
	}
	return new(capgatepb.DeleteToolsetResponse), err
}

// AcceptToolsetTool implements capgatepb.ToolsetsServer.
func (s *server) AcceptToolsetTool(ctx context.Context,
	req *capgatepb.AcceptToolsetToolRequest) (*capgatepb.AcceptToolsetToolResponse, error) {
	r, err := s.stored.Record(ctx, req, req.GetToolsetName())
	if err != nil {
		return nil, err
	}
	set, err := s.find(r.Name, r.Tenant, r.UID)
	switch {
	case err != nil:
		return nil, err
	case set.Record() == nil:
		return nil, refusedInFile
	case set.Record().Tenant != r.Tenant:
		return nil, refusedUnknown(r.Name)
	}
	t, err := s.accepted(set, req)
	if err != nil {
		return nil, err
	}
	if r.Text, err = textOf(t); err == nil {
		err = s.stored.Write(ctx, r, set.Record().Etag, "tool_accepted")
	}
	if err != nil {
		return nil, err
	}
	next, err := s.get(ctx, req.GetToolsetName(), req)
	return &capgatepb.AcceptToolsetToolResponse{Toolset: next}, err
}

// accepted returns a toolset in which the entry of a tool has the current hash of the tool, which must be that of the
// request.
func (s *server) accepted(set *toolset.Set, req *capgatepb.AcceptToolsetToolRequest) (*capgatepb.Toolset, error) {
	hash, ok := toolschema.ParseHash(req.GetHash())
	if !ok {
		return nil, call.InvalidField(pages.Reason, "hash", "must be the 64 hexadecimal digits of the tool's hash")
	}
	t, known, problem := messageOf(set), false, "no entry of the toolset names exactly this capability and tool"
	for _, e := range t.GetTools() {
		switch {
		case e.GetCapability() != req.GetCapability() || e.GetTool() != req.GetTool():
		case e.GetHash() == "":
			problem = "the entry has no hash; set one with capgate toolsets set"
		default:
			e.Hash, known = hash.String(), true
		}
	}
	now, there := s.Catalog.Describe(req.GetCapability(), req.GetTool())
	switch {
	case !known:
		return nil, &call.Refusal{Kind: call.NotFound, Reason: "TOOL_UNKNOWN", Message: problem}
	case !there || now.Hash != hash:
		return nil, &call.Refusal{Kind: call.FailedPrecondition, Reason: "TOOL_CHANGED",
			Message: "the tool is unknown, or its hash has changed; capgate toolsets show " + set.Name() + " prints it"}
	}
	return t, nil
}
