package webhooks

import (
	"context"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/policy/approvals/webhook"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pages sets the page sizes of lists of dead letters.
var pages = paging.Bounds{Standard: 100, Most: 100}

// maxRetries is the maximum number of letters that a request retries.
const maxRetries = 1000

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
	query, refusal := search.Read("LETTER_INVALID", req.GetQuery())
	if refusal != nil {
		return nil, refusal
	}
	resp := &capgatepb.ListDeadLettersResponse{Destinations: s.destinations()}
	found, next, err := paging.Matching(s.dead, matching(query, &resp.Malformed))(ctx,
		strconv.FormatUint(skip, 10), size)
	if err != nil {
		return nil, refusedAway
	}
	resp.NextPageToken = next
	for i := range found {
		resp.Dead = append(resp.Dead, message(&found[i]))
	}
	return resp, nil
}

// dead is a paging.List of dead letters. A position is a number of letters.
func (s *server) dead(ctx context.Context, after string, most int) (found []webhook.Letter, next string, err error) {
	skip, _ := strconv.Atoi(after) // "": 0
	found, err = s.letters.Dead(ctx, skip, most)
	if err == nil && len(found) == most {
		next = strconv.Itoa(skip + most)
	}
	return found, next, err
}

// matching returns a function that reports whether a query matches a letter. It counts malformed letters, which do not
// match.
func matching(query search.Query, malformed *int32) func(webhook.Letter) bool {
	return func(l webhook.Letter) bool {
		if l.Malformed {
			*malformed++
			return false
		}
		return query.Matches(l.ID, l.Destination, l.Type(), l.Tenant, l.Approval, l.Reason)
	}
}

func message(l *webhook.Letter) *capgatepb.DeadLetter {
	return &capgatepb.DeadLetter{Id: l.ID, Destination: l.Destination, Type: l.Type(),
		Tenant: l.Tenant, Approval: l.Approval, Time: timestamppb.New(l.At), Died: timestamppb.New(l.Died),
		Error: l.Reason, Attempts: restjson.Int32(l.Attempts)}
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

// RetryDeadLetters implements capgatepb.WebhooksServer.
func (s *server) RetryDeadLetters(ctx context.Context,
	req *capgatepb.RetryDeadLettersRequest) (*capgatepb.RetryDeadLettersResponse, error) {
	query, refusal := search.Read("LETTER_INVALID", req.GetQuery())
	if refusal != nil {
		return nil, refusal
	}
	// Letters are collected before the first retry: one that dies again is not retried twice.
	resp := new(capgatepb.RetryDeadLettersResponse)
	found, next, err := paging.Matching(s.dead, matching(query, &resp.Malformed))(ctx, "", maxRetries)
	resp.More = next != ""
	for _, l := range slices.Backward(found) {
		var retried bool
		if retried, err = s.letters.Retry(ctx, l.ID); err != nil {
			break
		}
		if retried {
			resp.Retried++
		}
	}
	if resp.GetRetried() > 0 {
		admin.Record(ctx, s.audit, "letter.retried", "", "letters", strconv.Itoa(int(resp.GetRetried())), "query",
			req.GetQuery())
	}
	if err != nil {
		return nil, refusedAway
	}
	return resp, nil
}

var (
	refusedToken = &call.Refusal{Kind: call.InvalidArgument, Reason: "LETTER_INVALID",
		Message: "page_token: it must be the next_page_token of a response"}
	refusedUnknown = &call.Refusal{Kind: call.NotFound, Reason: "LETTER_UNKNOWN",
		Message: "the dead letter does not exist"}
	refusedAway = &call.Refusal{Kind: call.Unavailable, Reason: "WEBHOOKS_UNAVAILABLE",
		Message: "dead letters cannot be read or written at the moment"}
)
