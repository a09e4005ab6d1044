package calls

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// search lists calls of past days.
func (s *Service) search(ctx context.Context, req *capgatepb.ListCallsRequest, f recent.Filter, page paging.Page) (
	*capgatepb.ListCallsResponse, error) {
	if !s.Recent.Archived() {
		return nil, &call.Refusal{Kind: call.FailedPrecondition, Reason: "CALLS_OFF",
			Message: "calls of past days are not kept: calls.past is 0 in the configuration"}
	}
	q := &recent.Search{Filter: f, To: time.Now(), Before: page.After, Most: page.Size}
	if t := req.GetEndTime(); t != nil {
		q.To = t.AsTime()
	}
	q.From = q.To.Add(-s.Recent.Age())
	if t := req.GetStartTime(); t != nil {
		q.From = t.AsTime()
	}
	if first := time.Unix(0, 0); q.From.Before(first) {
		q.From = first
	}
	if q.To.Before(q.From) {
		return nil, call.InvalidField(invalid, "end_time", "it must not be before start_time")
	}
	found, err := s.Recent.Search(ctx, q)
	if err != nil {
		return nil, &call.Refusal{Kind: call.Unavailable, Reason: "CALLS_UNAVAILABLE",
			Message: "the calls of past days cannot be read from Redis; try again later"}
	}
	resp := &capgatepb.ListCallsResponse{Replica: s.Recent.Replica(), NextPageToken: paging.Token(found.Next),
		Incomplete: found.Incomplete}
	for i := range found.Calls {
		resp.Calls = append(resp.Calls, s.message(&found.Calls[i]))
	}
	return resp, nil
}
