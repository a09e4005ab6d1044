// Package listing lists the OpenParallax engines that callers may use: ListEngines of capgate.v1.Catalog.
// gateway/builtin/listing implements the rest of that service.
package listing

import (
	"context"

	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Catalog implements capgate.v1.Catalog.
type Catalog struct {
	*listing.Server
	engines func() []string
}

// New adds engines to a catalog. engines returns all ids, sorted; New does not change them.
func New(catalog *listing.Server, engines func() []string) *Catalog {
	return &Catalog{catalog, engines}
}

// ListEngines implements capgatepb.CatalogServer. A caller without a scope for engines sees none.
func (c *Catalog) ListEngines(ctx context.Context,
	req *capgatepb.ListEnginesRequest) (*capgatepb.ListEnginesResponse, error) {
	ids, next, err := c.Page(ctx, req, func(caller tenant.Identity) []string {
		if !caller.Scopes.Any(tenant.Engines) {
			return nil
		}
		return c.engines()
	})
	if err != nil {
		return nil, err
	}
	resp := &capgatepb.ListEnginesResponse{NextPageToken: next}
	for _, id := range ids {
		resp.Engines = append(resp.Engines, &capgatepb.Engine{Id: id})
	}
	return resp, listing.Tag(resp, &resp.Etag)
}
