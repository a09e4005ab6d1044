package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/lib/restjson"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// EventsPath is the path of the events of approvals.
const EventsPath = "/v1/approvals/events"

const (
	lastEventID = "Last-Event-ID"
	eventBegan  = "began" // marks the start of the following events
	reconnect   = 2 * time.Second
)

// Feed reports changes of approvals until ctx ends or tell fails.
type Feed func(ctx context.Context, req *capgatepb.WatchApprovalsRequest,
	tell func(*capgatepb.WatchApprovalsResponse) error) error

// EventsConfig configures Events.
type EventsConfig struct {
	Beat time.Duration // interval of heartbeats, which show intermediaries that the stream is alive; default 5 s
	Slow time.Duration // timeout of a write to a client; default 10 s
}

// Events serves a feed as server-sent events (WHATWG HTML §9.2).
type Events struct {
	feed Feed
	cfg  EventsConfig
}

// NewEvents returns Events for a feed.
func NewEvents(feed Feed, cfg EventsConfig) *Events { return &Events{feed, cfg} }

func (c *EventsConfig) setDefaults() {
	c.Beat, c.Slow = cmp.Or(c.Beat, 5*time.Second), cmp.Or(c.Slow, 10*time.Second)
}

// Serve serves a request, as a route of grpc-gateway's mux.
func (e *Events) Serve(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	req := &capgatepb.WatchApprovalsRequest{Tenant: r.URL.Query().Get("tenant"), LastEventId: LastEventID(r)}
	ServeEvents(w, r, e.cfg, func(ctx context.Context, tell func(*capgatepb.WatchApprovalsResponse) error) error {
		return e.feed(ctx, req, tell)
	}, textOf)
}

// LastEventID returns the id of the last event that the client of a request has received.
func LastEventID(r *http.Request) string {
	if id := r.Header.Get(lastEventID); id != "" {
		return id
	}
	return r.URL.Query().Get("last_event_id")
}

// ServeEvents responds to a request with the events of a feed. text returns the text of an event.
func ServeEvents[T any](w http.ResponseWriter, r *http.Request, cfg EventsConfig,
	feed func(ctx context.Context, tell func(T) error) error, text func(T) ([]byte, error)) {
	cfg.setDefaults()
	out := &stream.Writer{Out: bodybudget.WriteTimeout(w, cfg.Slow), Type: stream.Events, Cache: "no-store",
		Prelude: fmt.Sprintf("retry: %d\n\n", reconnect.Milliseconds())}
	over, err := pump(r.Context(), cfg.Beat, feed, func(event T) error {
		t, err := text(event)
		if err != nil {
			return err
		}
		return out.Send(t)
	}, func() error { return out.Send([]byte(stream.Beat)) })
	if over {
		out.End()
	}
	if err != nil && !out.Begun() {
		WriteProblem(w, r, err)
	}
}

// textOf returns the text of an event.
func textOf(e *capgatepb.WatchApprovalsResponse) ([]byte, error) {
	var a proto.Message = &capgatepb.Approval{}
	if e.GetApproval() != nil {
		a = e.GetApproval()
	}
	return EventText(e.GetId(), e.GetEvent(), a)
}

// EventText returns the text of an event. The event that marks the start only has an id, which a client stores without
// dispatching an event.
func EventText(id, event string, data proto.Message) ([]byte, error) {
	if event == eventBegan {
		return stream.Event(id, "", nil), nil
	}
	text, err := restjson.Marshal(data) // one line
	if err != nil {
		return nil, err
	}
	return stream.Event(id, event, text), nil
}
