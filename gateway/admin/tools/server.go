package tools

import (
	"context"
	"errors"
	"slices"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/internal/toolset"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pages sets the page sizes of lists of capabilities.
var pages = paging.Bounds{Standard: 100, Most: 1000, Reason: "CATALOG_INVALID"}

// Discoverer discovers the tools of capabilities.
type Discoverer interface {
	Discover(ctx context.Context, capability string) error
}

// maxToolsets is the maximum number of toolsets that a tool is shown with.
const maxToolsets = 100

// New returns the service. sets has the toolsets of the tenants in r, and log records accepted tools and discoveries;
// these may be nil. If v is nil, drifted tools are shown without their accepted versions.
func New(c *catalog.Catalog, d Discoverer, v catalog.Versions, sets *toolset.Sets, r *tenant.Roster,
	log *audit.Log) admin.Service {
	s := &server{catalog: c, discoverer: d, versions: v, toolsets: sets, roster: r, audit: log}
	service := admin.NewService[capgatepb.CatalogAdminServer](s, capgatepb.RegisterCatalogAdminServer,
		capgatepb.RegisterCatalogAdminHandlerServer)
	service.Fault = fault
	return service
}

// server implements capgate.v1.CatalogAdmin.
type server struct {
	capgatepb.UnimplementedCatalogAdminServer
	catalog    *catalog.Catalog
	discoverer Discoverer
	versions   catalog.Versions
	toolsets   *toolset.Sets
	roster     *tenant.Roster
	audit      *audit.Log
}

// ListCatalog implements capgatepb.CatalogAdminServer.
func (s *server) ListCatalog(_ context.Context, req *capgatepb.ListCatalogRequest) (*capgatepb.ListCatalogResponse,
	error) {
	page, query, refusal := search.ReadPage(pages, req)
	if refusal != nil {
		return nil, refusal
	}
	all := s.catalog.Capabilities()
	if len(query) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(id string) bool { return !s.has(id, query) })
	}
	ids, next := paging.Slice(page, all, paging.ID)
	resp := &capgatepb.ListCatalogResponse{NextPageToken: paging.Token(next)}
	for _, id := range ids {
		if listing, there := s.catalog.Inspect(id); there {
			resp.Capabilities = append(resp.Capabilities, entryOf(&listing, false))
		}
	}
	return resp, nil
}

// ShowCatalog implements capgatepb.CatalogAdminServer.
func (s *server) ShowCatalog(ctx context.Context, req *capgatepb.ShowCatalogRequest) (*capgatepb.ShowCatalogResponse,
	error) {
	entry, err := s.show(ctx, req.GetCapability())
	return &capgatepb.ShowCatalogResponse{Capability: entry}, err
}

// AcceptTool implements capgatepb.CatalogAdminServer.
func (s *server) AcceptTool(ctx context.Context, req *capgatepb.AcceptToolRequest) (*capgatepb.AcceptToolResponse,
	error) {
	if _, err := s.show(ctx, req.GetCapability()); err != nil {
		return nil, err
	}
	hash, ok := toolschema.ParseHash(req.GetHash())
	if !ok {
		return nil, call.InvalidField("CATALOG_INVALID", "hash",
			"must be the 64 hexadecimal digits of the tool's hash")
	}
	if err := s.catalog.Accept(ctx, req.GetCapability(), req.GetTool(), hash); err != nil {
		return nil, err
	}
	admin.Record(ctx, s.audit, "tool.accepted", "", "capability", req.GetCapability(), "tool", req.GetTool(),
		"hash", hash.String())
	entry, err := s.show(ctx, req.GetCapability())
	return &capgatepb.AcceptToolResponse{Capability: entry}, err
}

// DiscoverTools implements capgatepb.CatalogAdminServer.
func (s *server) DiscoverTools(ctx context.Context,
	req *capgatepb.DiscoverToolsRequest) (*capgatepb.DiscoverToolsResponse, error) {
	if _, err := s.show(ctx, req.GetCapability()); err != nil {
		return nil, err
	}
	var refusal *call.Refusal
	switch err := s.discoverer.Discover(ctx, req.GetCapability()); {
	case errors.As(err, &refusal):
		return nil, refusal
	case err != nil && ctx.Err() != nil:
		return nil, fault(err)
	}
	admin.Record(ctx, s.audit, "tools.discovered", "", "capability", req.GetCapability())
	entry, err := s.show(ctx, req.GetCapability())
	return &capgatepb.DiscoverToolsResponse{Capability: entry}, err
}

func (s *server) show(ctx context.Context, capability string) (*capgatepb.CatalogEntry, error) {
	listing, there := s.catalog.Inspect(capability)
	if !there {
		return nil, &call.Refusal{Kind: call.NotFound, Reason: "CAPABILITY_UNKNOWN",
			Message: "no capability of that name is configured; GET /v1/capabilities (capgate catalog list) has all"}
	}
	entry := entryOf(&listing, true)
	exists := s.roster.Existing(ctx)
	for i, t := range entry.GetTools() {
		for _, set := range s.changed(exists, capability, t.GetName(), listing.Tools[i].Hash) {
			of := &capgatepb.CatalogEntry_ToolsetName{Name: set.Name(), Source: set.Source()}
			if r := set.Record(); r != nil {
				of.Tenant = r.Tenant
			}
			if t.Toolsets = append(t.Toolsets, of); len(t.GetToolsets()) == maxToolsets {
				break
			}
		}
	}
	if s.versions != nil {
		accepted := s.catalog.AcceptedVersions(ctx, s.versions, capability)
		for _, t := range entry.GetTools() {
			if v, known := accepted[t.GetName()]; known && t.GetDrifted() {
				t.Accepted = &capgatepb.CatalogEntry_Version{Hash: v.Hash.String(), Description: v.Description,
					InputSchema: string(v.Schema), OutputSchema: string(v.Output)}
			}
		}
	}
	return entry, nil
}

// tenants reports whether a tenant exists.
type tenants func(id, uid string) bool

// changed returns the toolsets of tenants that exist which have another hash of a tool.
func (s *server) changed(exists tenants, capability, name string, hash toolschema.Hash) []*toolset.Set {
	return slices.DeleteFunc(s.toolsets.Changed(capability, name, hash), func(set *toolset.Set) bool {
		return !set.HasTenant(exists)
	})
}

// fault returns the refusal for an error of the store.
func fault(err error) *call.Refusal {
	return admin.StoreUnavailable("CATALOG_UNAVAILABLE", "tools", err)
}

func entryOf(l *catalog.Listing, tools bool) *capgatepb.CatalogEntry {
	e := &capgatepb.CatalogEntry{
		Name: paging.Name("capabilities", l.Capability), Capability: l.Capability, Source: string(l.Source),
		Known: l.Known, ToolCount: int32(len(l.Tools)), DriftGuard: l.Guarded,
		LastSuccess: restjson.Time(l.Last.Succeeded), LastFailure: restjson.Time(l.Last.Failed),
		LastError: l.Last.Error, Pending: l.Pending, LeftOut: l.Last.LeftOut,
	}
	for i := range l.Tools {
		t := &l.Tools[i]
		if t.Drifted {
			e.DriftedCount++
		}
		if !tools {
			continue
		}
		shown := &capgatepb.CatalogEntry_Tool{
			Name: t.Name, Description: t.Description, Hash: t.Hash.String(), Drifted: t.Drifted,
			TerminalOnSuccess: t.TerminalOnSuccess,
		}
		if t.Recommends {
			shown.RecommendedPolicy = t.Recommended.String()
		}
		if t.Schema != nil {
			shown.InputSchema = string(t.Schema.JSON())
		}
		shown.OutputSchema = string(t.Output.JSON())
		shown.Unchecked = t.Unchecked()
		e.Tools = append(e.Tools, shown)
	}
	return e
}
