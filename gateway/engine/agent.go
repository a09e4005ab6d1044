package engine

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/recovery"
)

var bothWays = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// agent connects an agent to its engine, unless that has one. It ends with its caller.
//
// Who is the agent has one lease, and whose stream the engine has another, for which a successor waits: an
// engine may forget its agent when the stream of the one before ends.
func (g *Guard) agent(s grpc.ServerStream, p *Passage, path string) error {
	ctx := s.Context()
	lease, err := g.cfg.Turns.Seize(ctx, p.engine(), p.who(), p.Settings.LastWins)
	switch {
	case errors.Is(err, turns.ErrHeld):
		return g.cfg.Refuse(ctx, refusedAgent)
	case err != nil:
		return g.cfg.Refuse(ctx, refusedAway)
	}
	defer lease.Release()
	stream, refusal := g.succeed(ctx, p, lease)
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	c := &session{agent: s, directives: make(chan []byte), ended: make(chan struct{})}
	connected, gone := make(chan error, 1), make(chan struct{})
	err = g.cfg.Detach(ctx, func(ctx context.Context) {
		defer stream.Release()
		onward, opts := g.cfg.Onward(ctx)
		onward, cancel := context.WithCancel(onward)
		defer cancel()
		var err error
		c.engine, err = g.cfg.Conn.NewStream(onward, bothWays, path, opts...)
		if connected <- err; err != nil {
			return
		}
		go c.read() // ends with the engine's stream
		<-gone
		c.part(ctx, cancel)
	})
	if err != nil {
		stream.Release()
		return err
	}
	defer close(gone)
	select {
	case err := <-connected:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	go c.events() // ends with the agent's stream
	p.meter.Attends(1)
	defer p.meter.Attends(-1)
	return c.pass(lease)
}

func (p *Passage) who() string { return p.Tenant + "/" + p.RequestID }

// succeed waits until the engine has no other agent's stream.
func (g *Guard) succeed(ctx context.Context, p *Passage, lease *turns.Lease) (*turns.Lease, *call.Refusal) {
	for {
		stream, err := g.cfg.Turns.Seize(ctx, p.engine()+" stream", p.who(), false)
		switch {
		case err == nil:
			return stream, nil
		case !errors.Is(err, turns.ErrHeld):
			return nil, refusedAway
		}
		select {
		case <-lease.Lost():
			return nil, refusedAgent
		case <-time.After(successor):
		}
	}
}

const (
	successor = 50 * time.Millisecond // from one look to the next whether the agent before has gone
	parting   = 2 * time.Second       // what an engine has to end the stream of an agent that goes
)

// session is an agent's stream and its engine's.
type session struct {
	agent      grpc.ServerStream
	engine     grpc.ClientStream
	directives chan []byte
	ended      chan struct{} // closed when the engine has ended it
	err        error         // how, then
}

// pass passes directives to the agent until the engine ends, or the agent goes, or another is the agent.
func (c *session) pass(lease *turns.Lease) error {
	for {
		select {
		case d := <-c.directives:
			if err := c.agent.SendMsg(&d); err != nil {
				return err
			}
		case <-c.ended:
			if errors.Is(c.err, io.EOF) {
				return nil
			}
			return c.err
		case <-lease.Lost():
			shutdown := directive("another agent has taken over this engine")
			return c.agent.SendMsg(&shutdown) // and that is all: who is told to go need not be told of an error
		case <-c.agent.Context().Done():
			return c.agent.Context().Err()
		}
	}
}

// part waits until the engine has ended its stream: in peace, if it does, as it hears from events that its
// agent has gone.
func (c *session) part(alive context.Context, cancel context.CancelFunc) {
	defer cancel()
	alive, stop := context.WithTimeout(alive, parting)
	defer stop()
	for {
		select {
		case <-c.directives: // for nobody
		case <-c.ended:
			return
		case <-alive.Done():
			cancel()
			<-c.ended
			return
		}
	}
}

// read reads directives until the engine ends.
func (c *session) read() {
	defer close(c.ended)
	defer func() {
		if v := recover(); v != nil {
			recovery.Report("engine agent", v)
			c.err = recovery.ErrPanic
		}
	}()
	for {
		var raw []byte
		if c.err = c.engine.RecvMsg(&raw); c.err != nil {
			return
		}
		select {
		case c.directives <- raw:
		case <-c.engine.Context().Done():
			c.err = c.engine.Context().Err()
			return
		}
	}
}

// events passes an agent's events to its engine.
func (c *session) events() {
	defer func() {
		if v := recover(); v != nil {
			recovery.Report("engine agent", v)
			_ = c.engine.CloseSend() // the engine ends it
		}
	}()
	for {
		var raw []byte
		if c.agent.RecvMsg(&raw) != nil { // it has no more, or is gone, of which pass knows
			_ = c.engine.CloseSend()
			return
		}
		if c.engine.SendMsg(&raw) != nil {
			return // read has the reason
		}
	}
}

// directive is an EngineDirective that tells an agent to end.
func directive(reason string) []byte {
	const fieldShutdown = 4
	shutdown := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), reason)
	return appendMessage(nil, fieldShutdown, shutdown)
}

var (
	refusedAgent = &call.Refusal{Kind: call.AlreadyExists, Reason: "ENGINE_HAS_AGENT",
		Message: "the engine has an agent already; agent: last-wins of the fleet would let this one take over"}
)
