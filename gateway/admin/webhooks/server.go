package webhooks

import (
	"context"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/policy/approvals/webhook"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pages sets the page sizes of lists of dead letters.
var pages = paging.Bounds{Standard: 100, Most: 100}

// Letters stores the events that could not be delivered.
type Letters interface {
	Dead(ctx context.Context, skip, most int) ([]webhook.Letter, error)
	Retry(ctx context.Context, id string) (bool, error)
}

// New returns the service. destinations returns the names of all configured destinations. log records deliveries; it
// may be nil.
func New(letters Letters, destinations func() []string, log *audit.Log) admin.Service {
	service := admin.NewService[capgatepb.WebhooksServer](&server{letters: letters, destinations: destinations,
		audit: log},
		capgatepb.RegisterWebhooksServer, capgatepb.RegisterWebhooksHandlerServer)
	service.Unreadable = paging.Unreadable
	return service
}

// server implements capgate.v1.Webhooks.
type server struct {
	capgatepb.UnimplementedWebhooksServer
	letters      Letters
	destinations func() []string
	audit        *audit.Log
}

// ListDeadLetters implements capgatepb.WebhooksServer.
func (s *server) ListDeadLetters(ctx context.Context,
	req *capgatepb.ListDeadLettersRequest) (*capgatepb.ListDeadLettersResponse, error) {
	size, refusal := pages.Size(req)
	if refusal != nil {
		return nil, refusal
	}
	skip := uint64(0)
	if token := req.GetPageToken(); token != "" {
		var err error
		if skip, err = strconv.ParseUint(token, 10, 31); err != nil {
			return nil, refusedToken
		}
	}
	found, err := s.letters.Dead(ctx, int(skip), size)
	if err != nil {
		return nil, refusedAway
	}
	resp := &capgatepb.ListDeadLettersResponse{Destinations: s.destinations()}
	for i := range found {
		l := &found[i]
		resp.Dead = append(resp.Dead, &capgatepb.DeadLetter{Id: l.ID, Destination: l.Destination,
			Type: "approval." + string(l.Kind), Tenant: l.Tenant, Approval: l.Approval, Time: timestamppb.New(l.At),
			Died: timestamppb.New(l.Died), Error: l.Reason,
			Attempts: int32(l.Attempts)}) //nolint:gosec // a small number
	}
	if len(found) == size {
		resp.NextPageToken = strconv.Itoa(int(skip) + size)
	}
	return resp, nil
}

// RetryDeadLetter implements capgatepb.WebhooksServer.
func (s *server) RetryDeadLetter(ctx context.Context,
	req *capgatepb.RetryDeadLetterRequest) (*capgatepb.RetryDeadLetterResponse, error) {
	switch found, err := s.letters.Retry(ctx, req.GetId()); {
	case err != nil:
		return nil, refusedAway
	case !found:
		return nil, refusedUnknown
	}
	admin.Record(ctx, s.audit, "letter.retried", "", "letter", req.GetId())
	return new(capgatepb.RetryDeadLetterResponse), nil
}

var (
	refusedToken = &call.Refusal{Kind: call.InvalidArgument, Reason: "LETTER_INVALID",
		Message: "page_token: it must be the next_page_token of a response"}
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "LETTER_UNKNOWN",
		Message: "the dead letter does not exist"}
	refusedAway = &call.Refusal{Kind: call.Unavailable, Reason: "WEBHOOKS_UNAVAILABLE",
		Message: "dead letters cannot be read or written at the moment"}
)
