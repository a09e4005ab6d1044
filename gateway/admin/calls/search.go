package calls

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/archive"
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
	within, ok := archive.Between(req.GetStartTime(), req.GetEndTime(), s.Recent.Age())
	if !ok {
		return nil, call.InvalidField(invalid, "end_time", "it must not be before start_time")
	}
	within.Before, within.Most = page.After, page.Size
	found, err := s.Recent.Search(ctx, &recent.Search{Filter: f, Range: within})
	if err != nil {
		return nil, &call.Refusal{Kind: call.Unavailable, Reason: "CALLS_UNAVAILABLE",
			Message: "the calls of past days cannot be read from Redis; try again later"}
	}
	resp := &capgatepb.ListCallsResponse{Replica: s.Recent.Replica(), NextPageToken: paging.Token(found.Next),
		Incomplete: found.Incomplete}
	if !found.Since.IsZero() {
		resp.SearchedSince = timestamppb.New(found.Since)
	}
	for i := range found.Entries {
		resp.Calls = append(resp.Calls, s.message(&found.Entries[i]))
	}
	return resp, nil
}
