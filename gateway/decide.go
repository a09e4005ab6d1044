package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/policy"
)

// Decider says whether a call may run.
type Decider interface {
	// Decide answers from memory, and must not block. Where it does not know, Ask does.
	Decide(*call.Call) (policy.Decision, bool)
	// Ask may wait, until ctx ends.
	Ask(context.Context, *call.Call) (policy.Decision, *call.Refusal)
	// Heeds says whether the tool of a call matters to what becomes of it.
	Heeds(capability string) bool
}

const (
	// maxAsking is how many calls wait at once for a decision that is not in memory. A flood
	// of calls for one decision is one question, but each of them waits.
	maxAsking = 10_000
	// askingPatience is how long one of them waits.
	askingPatience = 5 * time.Second
)

// asking are the calls that wait for a decision. Their streams are parked.
type asking struct {
	decider Decider
	slots   chan struct{}
	running sync.WaitGroup
}

func newAsking(d Decider) *asking { return &asking{decider: d, slots: make(chan struct{}, maxAsking)} }

// start asks, and then calls next with the stream, unless that has ended.
func (a *asking) start(s *relay.Stream, c call.Call, next func(*relay.Stream, policy.Decision, *call.Refusal)) *call.Refusal {
	select {
	case a.slots <- struct{}{}:
	default:
		return refusedAsking
	}
	// The call's words are the transit's, which another call gets when this one ends.
	c.Tenant, c.User, c.Agent = strings.Clone(c.Tenant), strings.Clone(c.User), strings.Clone(c.Agent)
	c.Tool, c.Path, c.Service, c.Session = strings.Clone(c.Tool), "", "", ""
	parked := s.Park()
	a.running.Go(func() {
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), askingPatience)
		defer cancel()
		decision, refusal := a.decider.Ask(ctx, &c)
		parked.Resume(func(s *relay.Stream) { next(s, decision, refusal) })
	})
	return nil
}

// close waits for those that still ask.
func (a *asking) close() { a.running.Wait() }

// decide finds out whether the call may run, at once where memory knows, as it does in the
// steady state. What is no call of a tool may pass, and so may what passed before.
func (h *handler) decide(s *relay.Stream, t *transit) {
	if t.own || t.assigned {
		h.decided(s, t, nil)
		return
	}
	switch t.call.Method {
	case call.Healthcheck, call.UploadInputArtifact, call.DownloadOutputArtifact:
		h.decided(s, t, nil)
		return
	}
	if decision, known := h.decider.Decide(&t.call); known {
		h.judge(s, t, decision, nil)
		return
	}
	refusal := h.asking.start(s, t.call, func(s *relay.Stream, d policy.Decision, refusal *call.Refusal) {
		h.judge(s, transitOf(s), d, refusal)
	})
	if refusal != nil {
		h.decided(s, t, refusal)
	}
}

// judge turns a decision into what becomes of the call.
func (h *handler) judge(s *relay.Stream, t *transit, d policy.Decision, refusal *call.Refusal) {
	if refusal == nil {
		t.decision, t.judged = d, true
		if d.Verdict != call.Allow {
			refusal = forbidden(&t.call, d)
		}
	}
	h.decided(s, t, refusal)
}
