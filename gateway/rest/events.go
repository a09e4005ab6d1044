package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// EventsPath is where the events of approvals are.
const EventsPath = "/v1/approvals/events"

const (
	lastEventID = "Last-Event-ID"
	eventBegan  = "began" // says where the events that follow begin
	reconnect   = 2 * time.Second
)

// Feed tells what happens to approvals until ctx ends or tell fails.
type Feed func(ctx context.Context, req *capgatepb.WatchApprovalsRequest, tell func(*capgatepb.WatchApprovalsResponse) error) error

// EventsConfig is what Events are made of. Only HTTPStatus is required.
type EventsConfig struct {
	HTTPStatus func(codes.Code) int // of gRPC codes
	Beat       time.Duration        // how often something is sent, for those in between to see that it lives; default 15 s
	Slow       time.Duration        // how long a client may take to read what is sent; default 10 s
}

// Events tells a feed as server-sent events (WHATWG HTML §9.2).
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
	ctx, cancel := context.WithCancel(r.Context())
	told, ended := make(chan *capgatepb.WatchApprovalsResponse), make(chan error, 1)
	go func() {
		ended <- e.feed(ctx, req, func(event *capgatepb.WatchApprovalsResponse) error {
			select {
			case told <- event:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	out := &eventWriter{w: w, control: http.NewResponseController(w), slow: e.cfg.Slow}
	over, err := e.relay(out, told, ended)
	cancel()
	if over {
		_ = out.control.SetWriteDeadline(time.Time{}) // another request may come by the connection
	} else {
		err = errors.Join(err, <-ended)
	}
	if err != nil && !out.begun {
		WriteProblem(w, r, err, e.cfg.HTTPStatus)
	}
}

// relay writes what is told until the feed is over, whose error it answers with, or the
// client does not read.
func (e *Events) relay(out *eventWriter, told <-chan *capgatepb.WatchApprovalsResponse, ended <-chan error) (over bool, err error) {
	beat := time.NewTicker(e.cfg.Beat)
	defer beat.Stop()
	for err == nil {
		select {
		case event := <-told:
			err = out.event(event)
		case <-beat.C:
			err = out.write(":\n\n")
		case err = <-ended:
			return true, err
		}
	}
	return false, err
}

// eventWriter writes the parts of one response.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	slow    time.Duration
	begun   bool
}

func (o *eventWriter) event(e *capgatepb.WatchApprovalsResponse) error {
	var b strings.Builder
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
			return err
		}
		fmt.Fprintf(&b, "event: %s\ndata: %s", e.GetEvent(), data)
	}
	b.WriteByte('\n')
	return o.write(b.String())
}

// write sends some lines now, or fails if the client takes too long to read them.
func (o *eventWriter) write(lines string) error {
	_ = o.control.SetWriteDeadline(time.Now().Add(o.slow)) // what cannot do that ends with the connection
	if !o.begun {
		o.begun = true
		head := o.w.Header()
		head.Set("Content-Type", "text/event-stream")
		head.Set("Cache-Control", "no-store")
		head.Set("X-Accel-Buffering", "no") // nginx
		o.w.WriteHeader(http.StatusOK)
		lines = fmt.Sprintf("retry: %d\n\n", reconnect.Milliseconds()) + lines
	}
	if _, err := o.w.Write([]byte(lines)); err != nil {
		return err
	}
	return o.control.Flush()
}
