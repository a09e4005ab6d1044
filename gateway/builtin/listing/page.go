package listing

import (
	"context"

	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/tenant"
)

// Page returns the requested page of the ids that the caller may see, and the token of the next page. all returns the
// sorted ids for a caller, which Page does not change.
func (s *Server) Page(ctx context.Context, req paging.Request,
	all func(tenant.Identity) []string) (page []string, token string, err error) {
	caller, err := tenant.FromContext(ctx)
	if err != nil {
		return nil, "", err
	}
	asked, refusal := pages.Read(req)
	if refusal != nil {
		return nil, "", status.Answer(refusal).Err()
	}
	next := visible(all(caller), caller, asked.After)
	for ids := next(); len(ids) > 0; ids = next() {
		for _, id := range ids {
			if len(page) == asked.Size {
				return page, paging.Token(page[asked.Size-1]), nil
			}
			page = append(page, id)
		}
	}
	return page, "", nil
}
