package engine

import (
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/call"
)

var bothWays = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// agent connects an agent to its engine, unless that has one. It ends with its caller.
func (g *Guard) agent(s grpc.ServerStream, p *Passage, path string) error {
	ctx := s.Context()
	lease, err := g.cfg.Turns.Seize(ctx, p.engine(), net.JoinHostPort(p.Tenant, p.RequestID), p.Settings.LastWins)
	switch {
	case errors.Is(err, turns.ErrHeld):
		return g.cfg.Refuse(ctx, refusedAgent)
	case err != nil:
		return g.cfg.Refuse(ctx, refusedAway)
	}
	defer lease.Release()
	onward, opts := g.cfg.Onward(ctx)
	onward, cancel := context.WithCancel(onward)
	defer cancel()
	up, err := g.cfg.Conn.NewStream(onward, bothWays, path, opts...)
	if err != nil {
		return err
	}
	go events(s, up, cancel) // ends with the stream
	directives := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- g.directives(onward, up, directives) }()
	for {
		select {
		case d := <-directives:
			if err := s.SendMsg(&d); err != nil {
				return err
			}
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				s.SetTrailer(up.Trailer())
				return nil
			}
			return err
		case <-lease.Lost():
			shutdown := directive("another agent has taken over this engine")
			return s.SendMsg(&shutdown) // and that is all: who is told to go need not be told of an error
		}
	}
}

// events passes an agent's events to its engine.
func events(s grpc.ServerStream, up grpc.ClientStream, cancel context.CancelFunc) {
	for {
		var raw []byte
		switch err := s.RecvMsg(&raw); {
		case errors.Is(err, io.EOF):
			_ = up.CloseSend() // the other direction tells if that fails
			return
		case err != nil:
			cancel()
			return
		}
		if up.SendMsg(&raw) != nil {
			return // the other direction has the reason
		}
	}
}

func (g *Guard) directives(ctx context.Context, up grpc.ClientStream, to chan<- []byte) error {
	for {
		var raw []byte
		if err := up.RecvMsg(&raw); err != nil {
			return err
		}
		select {
		case to <- raw:
		case <-ctx.Done():
			return ctx.Err()
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
