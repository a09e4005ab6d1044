package calls

import (
	"context"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/admin/watch"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxWatchers is the maximum number of concurrent watches of a replica, of all tenants.
const maxWatchers = 128

// WatchCalls implements capgatepb.CallsServer.
func (s *Service) WatchCalls(req *capgatepb.WatchCallsRequest, stream capgatepb.Calls_WatchCallsServer) error {
	sender := watch.NewSender(stream.Send)
	defer sender.Close()
	return s.feed(stream.Context(), req, sender.Send)
}

// feed sends the calls that match a request, until ctx ends or tell fails.
func (s *Service) feed(ctx context.Context, req *capgatepb.WatchCallsRequest,
	tell func(*capgatepb.WatchCallsResponse) error) error {
	f, err := s.filter(ctx, req)
	if err != nil {
		return status.Err(err)
	}
	return status.Err(s.watchers.Hold(ctx, strings.Join(f.Tenants, " "), func(ctx context.Context) error {
		return s.Recent.WatchMatching(ctx, &f, req.GetLastEventId(), func(e recent.Event) error {
			m := &capgatepb.WatchCallsResponse{Event: e.Kind}
			if e.Kind == recent.Ended {
				m.Id, m.Call = e.Call.ID, s.message(&e.Call)
			}
			return tell(m)
		})
	}))
}

// serveEvents serves the watch as server-sent events.
func (s *Service) serveEvents(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	req := new(capgatepb.WatchCallsRequest)
	// every parameter is a string, so none is invalid
	_ = runtime.PopulateQueryParameters(req, r.URL.Query(), utilities.NewDoubleArray(nil))
	req.LastEventId = rest.LastEventID(r)
	rest.ServeEvents(w, r, rest.EventsConfig{},
		func(ctx context.Context, tell func(*capgatepb.WatchCallsResponse) error) error {
			return s.feed(ctx, req, tell)
		},
		func(e *capgatepb.WatchCallsResponse) ([]byte, error) {
			var data proto.Message = &capgatepb.RecentCall{}
			if e.GetCall() != nil {
				data = e.GetCall()
			}
			return rest.EventText(e.GetId(), e.GetEvent(), data)
		})
}
