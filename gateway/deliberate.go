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

const (
	// maxDeliberations is how many calls are deliberated on at once. A flood of calls for one
	// decision is one question, but each of them waits.
	maxDeliberations = 10_000
	// maxHeld is how many bytes of messages they hold together.
	maxHeld = 64 << 20
	// askingPatience is how long one of them waits for a decision.
	askingPatience = 5 * time.Second
)

// matter is a call that is decided on.
type matter struct {
	call     call.Call
	args     []byte
	schema   *toolschema.Schema // of args; nil: they may be anything
	decision policy.Decision    // if known
	known    bool
}

// settled says that nothing more has to be found out.
func (m *matter) settled() bool {
	return m.known && (m.decision.Verdict != call.Allow || m.schema == nil)
}

// weight is how many bytes own copies of the call's message.
func (m *matter) weight() int64 {
	if m.schema == nil {
		return 0
	}
	return int64(len(m.args))
}

// own makes the matter's words and bytes its own: the call's are the transit's, which
// another call gets when this one ends, and the others are parts of a buffer.
func (m *matter) own() *matter {
	c := m.call
	c.Tenant, c.User, c.Agent = strings.Clone(c.Tenant), strings.Clone(c.User), strings.Clone(c.Agent)
	c.Tool, c.Path, c.Service, c.Session = strings.Clone(c.Tool), "", "", ""
	own := matter{call: c, schema: m.schema, decision: m.decision, known: m.known}
	if m.weight() > 0 {
		own.args = bytes.Clone(m.args)
	}
	return &own
}

// deliberations are the decisions that take a while, because something has to be asked or
// looked at. They are made beside the relay; the streams are parked.
type deliberations struct {
	decider Decider
	slots   chan struct{}
	held    atomic.Int64 // bytes
	running sync.WaitGroup
}

func newDeliberations(d Decider) *deliberations {
	return &deliberations{decider: d, slots: make(chan struct{}, maxDeliberations)}
}

// start deliberates and then calls next with the stream, unless that has ended.
func (d *deliberations) start(s *relay.Stream, about *matter, next func(*relay.Stream, policy.Decision, *call.Refusal)) *call.Refusal {
	select {
	case d.slots <- struct{}{}:
	default:
		return refusedDeliberating
	}
	held := about.weight()
	release := func() {
		d.held.Add(-held)
		<-d.slots
	}
	if d.held.Add(held) > maxHeld {
		release()
		return refusedDeliberating
	}
	about = about.own()
	parked := s.Park()
	d.running.Go(func() {
		defer release()
		decision, refusal := d.deliberate(about)
		parked.Resume(func(s *relay.Stream) { next(s, decision, refusal) })
	})
	return nil
}

// deliberate takes what has to be known in turn; the first that refuses the call has the
// last word.
func (d *deliberations) deliberate(m *matter) (policy.Decision, *call.Refusal) {
	if !m.known {
		ctx, cancel := context.WithTimeout(context.Background(), askingPatience)
		defer cancel()
		var refusal *call.Refusal
		if m.decision, refusal = d.decider.Ask(ctx, &m.call); refusal != nil {
			return m.decision, refusal
		}
	}
	if m.decision.Verdict == call.Allow && m.schema != nil {
		if err := m.schema.Check(m.args); err != nil {
			return m.decision, invalidArguments(&m.call, err)
		}
	}
	return m.decision, nil
}

// close waits for those that are at work.
func (d *deliberations) close() { d.running.Wait() }
