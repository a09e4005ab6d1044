package approval

import (
	"context"
	"errors"

	"github.com/capgate/capgate/gateway/admin/watch"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxWatchers is the maximum number of concurrent watches at a port, of all tenants. Each polls Redis.
const maxWatchers = 256

// WatchApprovals implements capgatepb.ApprovalsServer.
func (s *server) WatchApprovals(req *capgatepb.WatchApprovalsRequest,
	stream capgatepb.Approvals_WatchApprovalsServer) error {
	sender := watch.NewSender(stream.Send)
	defer sender.Close()
	return s.feed(stream.Context(), req, sender.Send)
}

// feed sends the events that the caller may see, until ctx ends or send fails.
func (s *server) feed(ctx context.Context, req *capgatepb.WatchApprovalsRequest,
	tell func(*capgatepb.WatchApprovalsResponse) error) error {
	v, err := s.caller(ctx, req)
	if err != nil {
		return status.Err(err)
	}
	seen := func(e approvals.Event) error {
		if e.Approval.ID != "" && !v.lists(&e.Approval) {
			return nil
		}
		return tell(s.eventOf(&e, &v))
	}
	ctx, cancel := s.follow(ctx, &v)
	defer cancel()
	err = s.watchers.Hold(ctx, v.tenant, func(ctx context.Context) error {
		if v.all {
			return s.Approvals.AllEvents(ctx, req.GetLastEventId() != "", seen)
		}
		return s.Approvals.Events(ctx, v.tenant, req.GetLastEventId(), seen)
	})
	if errors.Is(err, approvals.ErrBusy) {
		err = watch.Full
	}
	return status.Err(err)
}

// follow returns a context that ends with the credential of a caller at the public port. Package guard does the same
// for operators.
func (s *server) follow(ctx context.Context, v *caller) (context.Context, context.CancelFunc) {
	if v.identity == nil || s.Follow == nil {
		return context.WithCancel(ctx)
	}
	return s.Follow(ctx, func(ctx context.Context) bool { return s.StillValid(ctx, v.identity) })
}
