package tools

import (
	"context"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/search"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// has reports whether a capability, or one of its tools, matches a query.
func (s *server) has(capability string, query search.Query) bool {
	listing, there := s.catalog.Inspect(capability)
	if !there || query.Matches(capability) {
		return there
	}
	for i := range listing.Tools {
		if t := &listing.Tools[i]; query.Matches(capability, t.Name, t.Description) {
			return true
		}
	}
	return false
}

// ListCatalogTools implements capgatepb.CatalogAdminServer.
func (s *server) ListCatalogTools(ctx context.Context,
	req *capgatepb.ListCatalogToolsRequest) (*capgatepb.ListCatalogToolsResponse, error) {
	page, query, refusal := search.ReadPage(pages, req)
	if refusal != nil {
		return nil, refusal
	}
	var all []*capgatepb.CatalogTool
	exists := s.roster.Existing(ctx)
	for _, id := range s.catalog.Capabilities() {
		if of := req.GetCapability(); of == "" || of == id {
			all = append(all, s.toolsOf(id, query, req.GetDrifted(), exists)...)
		}
	}
	listed, next := paging.Slice(page, all, func(t *capgatepb.CatalogTool) string {
		return t.GetCapability() + "\x00" + t.GetTool()
	})
	return &capgatepb.ListCatalogToolsResponse{Tools: listed, NextPageToken: paging.Token(next),
		TotalSize: restjson.Int32(len(all))}, nil
}

// toolsOf returns the tools of a capability that match, by name.
func (s *server) toolsOf(capability string, query search.Query, drifted bool, exists tenants) (
	tools []*capgatepb.CatalogTool) {
	listing, _ := s.catalog.Inspect(capability)
	for i := range listing.Tools {
		t := &listing.Tools[i]
		changed := len(s.changed(exists, capability, t.Name, t.Hash))
		if drifted && !t.Drifted && changed == 0 || !query.Matches(capability, t.Name, t.Description) {
			continue
		}
		m := &capgatepb.CatalogTool{Capability: capability, Tool: t.Name, Description: t.Description,
			Drifted: t.Drifted, ToolsetCount: restjson.Int32(changed)}
		if t.Recommends {
			m.RecommendedPolicy = t.Recommended.String()
		}
		tools = append(tools, m)
	}
	slices.SortFunc(tools, func(a, b *capgatepb.CatalogTool) int { return strings.Compare(a.GetTool(), b.GetTool()) })
	return tools
}
