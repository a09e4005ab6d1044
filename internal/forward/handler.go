package forward

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay"
)

const (
	firstPause = 50 * time.Millisecond  // after all targets failed a call for the first time
	maxPause   = 400 * time.Millisecond // pauses double up to this
	maxRepeats = 3                      // of a read that lost its gateway
)

// call is the state of a call until its end.
type call struct {
	health  bool // a health check, which is repeated soon
	read    bool // carrying it out twice does no harm
	target  int  // the target that it was sent to last
	tried   int
	repeats int
	pause   time.Duration
}

// handler sends calls to the targets. The relay calls it with a shard locked: it does not block.
type handler struct {
	settings Settings
	key      *key
	targets  []*target
	current  atomic.Int64 // the target of new calls
	failing  atomic.Bool  // the log says that no gateway can be reached
	refusals refusals
	log      *slog.Logger
}

var _ relay.Handler = (*handler)(nil)

// passed lists the callers' request headers that are forwarded, in addition to those of HTTP/2 and gRPC. The settings
// determine the caller and the capability.
var passed = map[string]bool{
	"content-type": true, "te": true, "user-agent": true,
	"traceparent": true, "tracestate": true, "x-request-id": true, "idempotency-key": true,
}

// hidden reports whether a header stays here.
func hidden(name string) bool {
	return !passed[name] && !strings.HasPrefix(name, "grpc-") && !strings.HasPrefix(name, ":")
}

// Headers implements relay.Handler.
func (h *handler) Headers(s *relay.Stream) {
	_, method, _ := strings.Cut(strings.TrimPrefix(s.Path(), "/"), "/")
	c := &call{health: strings.EqualFold(method, "Healthcheck")}
	c.read = c.health || method == "DownloadOutputArtifact"
	s.Value = c
	if left, has := s.Timeout(); has {
		s.SetDeadline(left)
	}
	s.SetHeader("x-capability-id", h.settings.Capability)
	if h.settings.Session != "" {
		s.SetHeader("x-session-id", h.settings.Session)
	}
	h.send(s, c)
}

// send forwards a call to the current target.
func (h *handler) send(s *relay.Stream, c *call) {
	c.target = int(h.current.Load())
	t := h.targets[c.target]
	s.SetHeader(":authority", t.authority())
	if bearer := h.key.authorization(); bearer != "" {
		s.SetHeader("authorization", bearer)
	}
	s.Forward(t.upstream)
}

// Unsent sends a call that did not start to the next target: at once, and after a pause when all have failed it.
func (h *handler) Unsent(s *relay.Stream, err error) {
	c := s.Value.(*call)
	h.current.CompareAndSwap(int64(c.target), int64((c.target+1)%len(h.targets)))
	c.tried++
	h.log.Debug("not started", "gateway", h.targets[c.target].authority(), "tries", c.tried, "error", err)
	if c.tried%len(h.targets) != 0 || errors.Is(err, relay.ErrLost) {
		h.send(s, c)
		return
	}
	left := h.settings.Wait - time.Since(s.Started())
	if left <= 0 || c.health && !isPassing(err) {
		h.giveUp(s, c, err)
		return
	}
	c.pause = min(max(2*c.pause, firstPause), maxPause)
	parked := s.Park()
	time.AfterFunc(min(c.pause, left), func() { // at most one for each open stream
		parked.Resume(func(s *relay.Stream) {
			if s != nil {
				h.send(s, c)
			}
		})
	})
}

// isPassing reports whether a gateway accepted a connection, but no call on it.
func isPassing(err error) bool {
	return errors.Is(err, relay.ErrGoAway) || errors.Is(err, relay.ErrRefused)
}

// giveUp ends a call that no gateway has taken.
func (h *handler) giveUp(s *relay.Stream, c *call, err error) {
	if h.failing.CompareAndSwap(false, true) {
		h.log.Error("no gateway can be reached", "url", h.settings.URL, "error", err)
	}
	if c.repeats > 0 {
		s.Refuse(lost)
		return
	}
	s.Refuse(notStarted)
}

// Again repeats reads that lost their gateway. All other calls may have been carried out.
func (h *handler) Again(s *relay.Stream, a relay.Answer) bool {
	c := s.Value.(*call)
	if !c.read || a.Given || c.repeats >= maxRepeats {
		return false
	}
	c.repeats++
	return true
}

// Done implements relay.Handler.
func (h *handler) Done(s *relay.Stream, r *relay.Result) {
	if !r.Upstream {
		return
	}
	if h.failing.CompareAndSwap(true, false) {
		h.log.Info("the gateway can be reached again")
	}
	h.refusals.tell(h, s.Path(), r.Code)
	if r.Code == codeUnauthenticated {
		h.key.reject()
	}
}

// Explain implements relay.Handler.
func (h *handler) Explain(s *relay.Stream, f relay.Failure) relay.Status {
	c := s.Value.(*call)
	return explain(f, s.Sent() || c.repeats > 0, s.ResetCode())
}

// Started implements relay.Handler.
func (h *handler) Started(*relay.Stream) {}

// Exceeded implements relay.Handler. No stream has limits of its own.
func (h *handler) Exceeded(*relay.Stream, relay.Failure) bool { return false }

// Message implements relay.Handler. The handler requests no message.
func (h *handler) Message(s *relay.Stream, _ relay.Message) {
	s.Refuse(explain(relay.Panicked, true, 0))
}
