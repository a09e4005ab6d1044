package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// routeApprovals adds the routes of approvals.
func (h *Handler) routeApprovals(conn grpc.ClientConnInterface) error {
	client := capgatepb.NewApprovalsClient(strippingConn{conn})
	if err := capgatepb.RegisterApprovalsHandlerClient(context.Background(), h.mux, client); err != nil {
		return fmt.Errorf("register the routes of capgate.v1.Approvals: %w", err)
	}
	events := NewEvents(feedOf(client), EventsConfig{})
	// Later patterns take precedence over /v1/approvals/{id}.
	return h.mux.HandlePath(http.MethodGet, EventsPath,
		func(w http.ResponseWriter, r *http.Request, params map[string]string) {
			events.Serve(w, r.WithContext(outgoing(r)), params)
		})
}

// feedOf returns the events that a client receives.
func feedOf(client capgatepb.ApprovalsClient) Feed {
	return func(ctx context.Context, req *capgatepb.WatchApprovalsRequest,
		tell func(*capgatepb.WatchApprovalsResponse) error) error {
		stream, err := client.WatchApprovals(ctx, req)
		for err == nil {
			var event *capgatepb.WatchApprovalsResponse
			if event, err = stream.Recv(); err == nil {
				err = tell(event)
			}
		}
		if err == io.EOF {
			return nil
		}
		return err
	}
}
