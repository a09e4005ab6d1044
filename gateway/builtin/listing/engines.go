package listing

import (
	"context"

	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// ListEngines implements capgatepb.CatalogServer. Who has no scope of engines may use none.
func (s *Server) ListEngines(ctx context.Context, req *capgatepb.ListEnginesRequest) (*capgatepb.ListEnginesResponse, error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	size, after, refusal := paging.Read(req, defaultPage, maxPage, "LIST_INVALID")
	if refusal != nil {
		return nil, s.refused(refusal)
	}
	var all []string
	if caller.Scopes.Any(tenant.Engines) {
		all = s.engines()
	}
	resp := &capgatepb.ListEnginesResponse{}
	next := visible(all, caller, after)
	for ids := next(); len(ids) > 0; ids = next() {
		for _, id := range ids {
			if len(resp.GetEngines()) == size {
				resp.NextPageToken = paging.Token(resp.GetEngines()[size-1].GetId())
				return resp, tag(resp, &resp.Etag)
			}
			resp.Engines = append(resp.Engines, &capgatepb.Engine{Id: id})
		}
	}
	return resp, tag(resp, &resp.Etag)
}
