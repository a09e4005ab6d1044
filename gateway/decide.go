package gateway

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/toolschema"
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
	// Schema is what the arguments of a tool have to keep to; nil: they may be anything.
	Schema(capability, tool string) *toolschema.Schema
}

const (
	// maxAsking is how many calls wait at once for a decision that is not in memory, or for
	// their arguments to be checked. A flood of calls for one decision is one question, but
	// each of them waits.
	maxAsking = 10_000
	// maxHeld is how many bytes of arguments they hold together.
	maxHeld = 64 << 20
	// askingPatience is how long one of them waits.
	askingPatience = 5 * time.Second
)

// asking are the calls that wait for a decision, or for their arguments to be checked,
// which may take long. Their streams are parked.
type asking struct {
	decider Decider
	slots   chan struct{}
	held    atomic.Int64 // bytes of arguments
	running sync.WaitGroup
}

func newAsking(d Decider) *asking { return &asking{decider: d, slots: make(chan struct{}, maxAsking)} }

// start asks, checks the arguments of a call that may run against a schema, unless that is
// nil, and then calls next with the stream, unless that has ended.
func (a *asking) start(s *relay.Stream, c call.Call, schema *toolschema.Schema, args []byte, next func(*relay.Stream, policy.Decision, *call.Refusal)) *call.Refusal {
	if schema == nil {
		args = nil
	}
	held := int64(len(args))
	if a.held.Add(held) > maxHeld {
		a.held.Add(-held)
		return refusedAsking
	}
	select {
	case a.slots <- struct{}{}:
	default:
		a.held.Add(-held)
		return refusedAsking
	}
	// The call's words are the transit's, which another call gets when this one ends, and the
	// arguments are part of a buffer.
	c.Tenant, c.User, c.Agent = strings.Clone(c.Tenant), strings.Clone(c.User), strings.Clone(c.Agent)
	c.Tool, c.Path, c.Service, c.Session = strings.Clone(c.Tool), "", "", ""
	args = bytes.Clone(args)
	parked := s.Park()
	a.running.Go(func() {
		defer func() {
			a.held.Add(-held)
			<-a.slots
		}()
		ctx, cancel := context.WithTimeout(context.Background(), askingPatience)
		defer cancel()
		decision, refusal := a.decider.Ask(ctx, &c)
		if refusal == nil && decision.Verdict == call.Allow && schema != nil {
			if err := schema.Check(args); err != nil {
				refusal = invalidArguments(&c, err)
			}
		}
		parked.Resume(func(s *relay.Stream) { next(s, decision, refusal) })
	})
	return nil
}

// close waits for those that still ask.
func (a *asking) close() { a.running.Wait() }

// decide finds out whether the call may run, at once where memory knows, as it does in the
// steady state, and whether its arguments are what its tool takes, where its fleet wants
// that checked. What is no call of a tool may pass, and so may what passed before.
func (h *handler) decide(s *relay.Stream, t *transit, args []byte) {
	if t.own || t.assigned {
		h.decided(s, t, nil)
		return
	}
	switch t.call.Method {
	case call.Healthcheck, call.UploadInputArtifact, call.DownloadOutputArtifact:
		h.decided(s, t, nil)
		return
	}
	schema := h.decider.Schema(t.call.Capability, t.call.Tool)
	decision, known := h.decider.Decide(&t.call)
	if known && (schema == nil || decision.Verdict != call.Allow) {
		h.judge(s, t, decision, nil)
		return
	}
	refusal := h.asking.start(s, t.call, schema, args, func(s *relay.Stream, d policy.Decision, refusal *call.Refusal) {
		h.judge(s, transitOf(s), d, refusal)
	})
	if refusal != nil {
		h.decided(s, t, refusal)
	}
}

// judge turns a decision into what becomes of the call.
func (h *handler) judge(s *relay.Stream, t *transit, d policy.Decision, refusal *call.Refusal) {
	t.decision, t.judged = d, refusal == nil || d.Verdict == call.Allow // which bad arguments do not change
	if refusal == nil && d.Verdict != call.Allow {
		refusal = forbidden(&t.call, d)
	}
	h.decided(s, t, refusal)
}
