package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// EventsPath is where the events of approvals are.
const EventsPath = "/v1/approvals/events"

const (
	lastEventID = "Last-Event-ID"
	eventBegan  = "began" // marks where the following events begin
	reconnect   = 2 * time.Second
)

// Feed reports changes of approvals until ctx ends or tell fails.
type Feed func(ctx context.Context, req *capgatepb.WatchApprovalsRequest,
	tell func(*capgatepb.WatchApprovalsResponse) error) error

// EventsConfig is what Events are made of. Only HTTPStatus is required.
type EventsConfig struct {
	HTTPStatus func(codes.Code) int // of gRPC codes
	Beat       time.Duration        // how often something is sent, for those in between to see that it lives; default 15 s
	Slow       time.Duration        // timeout of a write to a client; default 10 s
}

// Events serves a feed as server-sent events (WHATWG HTML §9.2).
type Events struct {
	feed Feed
	cfg  EventsConfig
}

// NewEvents makes them.
func NewEvents(feed Feed, cfg EventsConfig) *Events {
	if cfg.Beat == 0 {
		cfg.Beat = 15 * time.Second
	}
	if cfg.Slow == 0 {
		cfg.Slow = 10 * time.Second
	}
	return &Events{feed, cfg}
}

// Serve answers a request, as a route of grpc-gateway's mux.
func (e *Events) Serve(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	query := r.URL.Query()
	req := &capgatepb.WatchApprovalsRequest{Tenant: query.Get("tenant"), LastEventId: r.Header.Get(lastEventID)}
	if req.GetLastEventId() == "" {
		req.LastEventId = query.Get("last_event_id")
	}
	out := newLive(w, eventStream, "no-store", e.cfg.Slow)
	out.prelude = fmt.Sprintf("retry: %d\n\n", reconnect.Milliseconds())
	over, err := pump(r.Context(), e.cfg.Beat,
		func(ctx context.Context, tell func(*capgatepb.WatchApprovalsResponse) error) error {
			return e.feed(ctx, req, tell)
		},
		func(event *capgatepb.WatchApprovalsResponse) error {
			text, err := textOf(event)
			if err != nil {
				return err
			}
			return out.write(text)
		},
		func() error { return out.write([]byte(":\n\n")) })
	if over {
		out.end()
	}
	if err != nil && !out.begun {
		WriteProblem(w, r, err, e.cfg.HTTPStatus)
	}
}

// textOf returns the text of an event.
func textOf(e *capgatepb.WatchApprovalsResponse) ([]byte, error) {
	var b bytes.Buffer
	if e.GetId() != "" {
		fmt.Fprintf(&b, "id: %s\n", e.GetId())
	}
	if e.GetEvent() != eventBegan { // an id alone is kept and nothing is dispatched
		var a proto.Message = &capgatepb.Approval{}
		if e.GetApproval() != nil {
			a = e.GetApproval()
		}
		data, err := encodeMessage(a) // one line
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "event: %s\ndata: %s", e.GetEvent(), data)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
