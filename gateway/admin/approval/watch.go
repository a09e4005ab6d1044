package approval

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	// maxWatchers bounds the concurrent watches at a port, of all tenants. Each polls Redis now and then.
	maxWatchers = 256
	// slow is the maximum time that a client may take to read an event.
	slow = 10 * time.Second
)

var (
	refusedWatchers = &call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHERS_FULL", RetryAfter: 5 * time.Second,
		Message: "too many watch approvals already"}
	refusedSlow = &call.Refusal{Kind: call.ResourceExhausted, Reason: "WATCHER_SLOW",
		Message: "the client did not read events; resume after the last event"}
	refusedLeaving = &call.Refusal{Kind: call.Unavailable, Reason: "DRAINING", RetryAfter: time.Second,
		Message: "the gateway is stopping; resume after the last event"}
)

// WatchApprovals implements capgatepb.ApprovalsServer.
func (s *server) WatchApprovals(req *capgatepb.WatchApprovalsRequest,
	stream capgatepb.Approvals_WatchApprovalsServer) error {
	sender := newSender(stream.Send)
	defer sender.close()
	return s.feed(stream.Context(), req, sender.send)
}

// feed sends the events that the caller may see, until ctx ends or send fails.
func (s *server) feed(ctx context.Context, req *capgatepb.WatchApprovalsRequest,
	tell func(*capgatepb.WatchApprovalsResponse) error) error {
	v, err := s.caller(ctx, req)
	if err != nil {
		return s.refused(err)
	}
	place := s.watchers.Of(v.tenant)
	if !place.Reserve(1) {
		return s.refused(refusedWatchers)
	}
	defer place.Release(1)
	if s.leaving.Err() != nil {
		return s.refused(refusedLeaving)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	seen := func(e approvals.Event) error {
		if e.Approval.ID != "" && !v.lists(&e.Approval) {
			return nil
		}
		return tell(s.eventOf(&e, &v))
	}
	if v.all {
		err = s.Approvals.AllEvents(ctx, req.GetLastEventId() != "", seen)
	} else {
		err = s.Approvals.Events(ctx, v.tenant, req.GetLastEventId(), seen)
	}
	if s.leaving.Err() != nil {
		err = refusedLeaving
	}
	return s.refused(err)
}

// sender sends to a client that has to read within a bounded time.
type sender struct {
	next  chan *capgatepb.WatchApprovalsResponse
	ended chan struct{}
	err   error // the final error; valid after ended
	late  bool
}

func newSender(send func(*capgatepb.WatchApprovalsResponse) error) *sender {
	s := &sender{next: make(chan *capgatepb.WatchApprovalsResponse), ended: make(chan struct{})}
	go func() { // ends after close, when the last event is sent or the stream is over
		defer close(s.ended)
		s.err = recovery.Do("approvals watcher", func() error {
			for e := range s.next {
				if err := send(e); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	return s
}

// send fails if the previous event was not read in time.
func (s *sender) send(e *capgatepb.WatchApprovalsResponse) error {
	t := time.NewTimer(slow)
	defer t.Stop()
	select {
	case s.next <- e:
		return nil
	case <-s.ended:
		return s.err
	case <-t.C:
		s.late = true
		return refusedSlow
	}
}

// close waits until all events are sent, except for a late client: only the end of the stream ends that Send.
func (s *sender) close() {
	close(s.next)
	if s.late {
		return
	}
	t := time.NewTimer(slow)
	defer t.Stop()
	select {
	case <-s.ended:
	case <-t.C:
	}
}
