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

var bidirectional = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// agent connects an agent to its engine, unless the engine has one and keeps it. It ends with its caller.
//
// The agent has a lease, and its stream at the engine has another, for which a successor waits: an engine may forget
// its agent when the stream of the previous agent ends.
func (g *Guard) agent(s grpc.ServerStream, p *Call, path string) error {
	ctx := s.Context()
	soon, stop := context.WithTimeout(ctx, handoverTimeout)
	defer stop()
	lease, refusal := g.await(ctx, p, p.engine(), p.Settings.LastWins, soon.Done())
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	defer lease.Close() // an agent may reconnect as soon as it learns of its end
	stream, refusal := g.await(ctx, p, p.engine()+" stream", false, lease.Lost())
	if refusal != nil {
		return g.cfg.Refuse(ctx, refusal)
	}
	c := &agentSession{agent: s, directives: make(chan []byte), ended: make(chan struct{})}
	connected, gone := make(chan error, 1), make(chan struct{})
	err := g.cfg.Detach(ctx, func(ctx context.Context) {
		defer stream.Release()
		onward, opts := g.cfg.Continue(ctx)
		onward, cancel := context.WithCancel(onward)
		defer cancel()
		var err error
		c.engine, err = g.cfg.Conn.NewStream(onward, bidirectional, path, opts...)
		if connected <- err; err != nil {
			return
		}
		go c.readDirectives() // ends with the engine's stream
		<-gone
		c.detach(ctx, cancel)
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
	go c.forwardEvents() // ends with the agent's stream
	p.meter.AddAgents(1)
	defer p.meter.AddAgents(-1)
	return c.forwardDirectives(lease)
}

func (p *Call) holder() string { return p.Tenant + "/" + p.RequestID }

// await acquires a lease. While another agent holds it, it retries until over is closed or the agent leaves.
func (g *Guard) await(ctx context.Context, p *Call, id string, takeover bool, over <-chan struct{}) (*turns.Lease,
	*call.Refusal) {
	for {
		lease, err := g.cfg.Turns.Acquire(ctx, id, p.holder(), takeover)
		switch {
		case err == nil:
			return lease, nil
		case !errors.Is(err, turns.ErrLeaseTaken):
			return nil, refusedUnavailable
		}
		select {
		case <-over:
			return nil, refusedAgent
		case <-ctx.Done():
			return nil, refusedLeft
		case <-time.After(pollInterval):
		}
	}
}

const (
	pollInterval    = 50 * time.Millisecond // polling interval for the end of the previous agent
	handoverTimeout = 2 * time.Second       // for the end of an agent, before its successor is connected
	detachTimeout   = 2 * time.Second       // for an engine to end the stream of a leaving agent
)

// agentSession connects the streams of an agent and its engine.
type agentSession struct {
	agent      grpc.ServerStream
	engine     grpc.ClientStream
	directives chan []byte
	ended      chan struct{} // closed when the engine has ended its stream
	err        error         // the engine's error; valid once ended is closed
}

// forwardDirectives sends directives to the agent until the engine ends its stream, the agent leaves, or another
// agent takes over.
func (c *agentSession) forwardDirectives(lease *turns.Lease) error {
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
			return c.agent.SendMsg(&shutdown) // without an error: the directive is sufficient
		case <-c.agent.Context().Done():
			return c.agent.Context().Err()
		}
	}
}

// detach waits until the engine has ended its stream. The engine detects the end of the agent by the end of the
// agent's events; after a timeout the stream is canceled.
func (c *agentSession) detach(alive context.Context, cancel context.CancelFunc) {
	defer cancel()
	alive, stop := context.WithTimeout(alive, detachTimeout)
	defer stop()
	for {
		select {
		case <-c.directives: // discarded
		case <-c.ended:
			return
		case <-alive.Done():
			cancel()
			<-c.ended
			return
		}
	}
}

// readDirectives reads directives until the engine ends its stream.
func (c *agentSession) readDirectives() {
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

// forwardEvents sends an agent's events to its engine.
func (c *agentSession) forwardEvents() {
	defer func() {
		if v := recover(); v != nil {
			recovery.Report("engine agent", v)
			_ = c.engine.CloseSend() // the engine ends it
		}
	}()
	for {
		var raw []byte
		if c.agent.RecvMsg(&raw) != nil { // end of events, or a lost agent: forwardDirectives handles that
			_ = c.engine.CloseSend()
			return
		}
		if c.engine.SendMsg(&raw) != nil {
			return // readDirectives has the reason
		}
	}
}

// directive returns an EngineDirective that tells an agent to end.
func directive(reason string) []byte {
	const fieldShutdown = 4
	shutdown := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), reason)
	return appendMessage(nil, fieldShutdown, shutdown)
}

var (
	refusedAgent = &call.Refusal{Kind: call.AlreadyExists, Reason: "ENGINE_HAS_AGENT",
		Message: "the engine already has an agent; agent: last-wins in the fleet's configuration lets this one take " +
			"over"}
)
