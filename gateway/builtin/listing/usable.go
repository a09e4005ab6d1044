package listing

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// Usable calls visit with the tools of each capability that a caller may use, starting at the id from, in the order of
// ids, until visit returns false. The error is a gRPC status.
func (s *Server) Usable(ctx context.Context, caller tenant.Identity, from string,
	visit func(capability string, tools []UsableTool) bool) error {
	ids := s.tools.Capabilities()
	first, _ := slices.BinarySearch(ids, from)
	next := visible(ids[first:], caller, "")
	for ids := next(); len(ids) > 0; ids = next() {
		all := make([]evaluated, len(ids))
		group, ctx := errgroup.WithContext(ctx)
		for i, id := range ids {
			group.Go(func() error {
				return recovery.Do("listing", func() (err error) {
					all[i], err = s.evaluate(ctx, caller, id)
					return err
				})
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for i, e := range all {
			if e.capability != nil && len(e.tools) > 0 && !visit(ids[i], e.tools) {
				return nil
			}
		}
	}
	return nil
}
