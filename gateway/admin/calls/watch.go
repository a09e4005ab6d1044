package calls

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	// maxWatchers bounds the concurrent watches of a replica, of all tenants.
	maxWatchers = 128
	// slow is the maximum time that a client may take to read an event.
	slow = 10 * time.Second
)

var (
	refusedWatchers = &call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHERS_FULL", RetryAfter: 5 * time.Second,
		Message: "too many watch calls already"}
	refusedSlow = &call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHER_SLOW",
		Message: "the client did not read events; resume after the last event"}
	refusedLeaving = &call.Refusal{Kind: call.Unavailable, Reason: "DRAINING", RetryAfter: time.Second,
		Message: "the gateway is stopping; resume after the last event"}
)

// WatchCalls implements capgatepb.CallsServer.
func (s *Service) WatchCalls(req *capgatepb.WatchCallsRequest, stream capgatepb.Calls_WatchCallsServer) error {
	next, ended := make(chan *capgatepb.WatchCallsResponse), make(chan error, 1)
	go func() { // ends with next, or with the stream
		ended <- recovery.Do("calls watcher", func() error {
			for e := range next {
				if err := stream.Send(e); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	defer func() { // no Send may go on after the RPC, unless the client reads nothing
		close(next)
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case err := <-ended:
			_ = err // an error of Send ends the stream by itself
		case <-t.C:
		}
	}()
	return s.feed(stream.Context(), req, func(e *capgatepb.WatchCallsResponse) error {
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case next <- e:
			return nil
		case err := <-ended:
			ended <- err
			return errors.Join(context.Canceled, err)
		case <-t.C:
			return s.refused(refusedSlow)
		}
	})
}

// feed tells of the calls that a request selects, until ctx ends or tell fails.
func (s *Service) feed(ctx context.Context, req *capgatepb.WatchCallsRequest,
	tell func(*capgatepb.WatchCallsResponse) error) error {
	f, err := s.filter(ctx, req)
	if err != nil {
		return s.refused(err)
	}
	place := s.watchers.Of(strings.Join(f.Tenants, " "))
	if !place.Reserve(1) {
		return s.refused(refusedWatchers)
	}
	defer place.Release(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	err = s.Recent.Watch(ctx, req.GetLastEventId(), func(e recent.Event) error {
		m := &capgatepb.WatchCallsResponse{Event: e.Kind}
		if e.Kind == recent.Ended {
			if !f.Matches(&e.Call) {
				return nil
			}
			m.Id, m.Call = e.Call.ID, s.message(&e.Call)
		}
		return tell(m)
	})
	if s.leaving.Err() != nil {
		err = refusedLeaving
	}
	return s.refused(err)
}

// serveEvents is the watch as server-sent events.
func (s *Service) serveEvents(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	q := r.URL.Query()
	req := &capgatepb.WatchCallsRequest{Tenant: q.Get("tenant"), Capability: q.Get("capability"), Tool: q.Get("tool"),
		Reason: q.Get("reason"), Code: q.Get("code"), MinDuration: q.Get("min_duration"), User: q.Get("user"),
		Agent: q.Get("agent"), LastEventId: rest.LastEventID(r)}
	rest.ServeEvents(w, r, rest.EventsConfig{HTTPStatus: s.HTTPStatus},
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
