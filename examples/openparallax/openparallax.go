// Package openparallax is an OpenParallax engine with its agents in one process:
//
//	engine/  the engine's services
//	agent/   the agent and sub-agents, which are clients of the engine
//	shield/  what the engine asks about actions
package openparallax

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
)

// restart is when an agent that was lost is started again.
const restart = time.Second

// Serve serves an engine on ln until ctx ends or a client shuts it down. Its agent and sub-agents dial through:
// the engine itself, or a gateway. Their errors are passed to failed.
func Serve(ctx context.Context, ln net.Listener, through string, failed func(error)) error {
	conn, err := grpc.NewClient(through, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	// The engine shuts its agent down.
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	e := engine.New(engine.Config{Spawn: func(token string) {
		working.Go(func() {
			if err := agent.RunSub(alive, conn, token); err != nil {
				failed(fmt.Errorf("sub-agent: %w", err))
			}
		})
	}})
	working.Go(func() { keep(alive, conn, failed) })
	return e.Serve(ctx, ln)
}

// keep runs an agent until it is shut down.
func keep(ctx context.Context, conn *grpc.ClientConn, failed func(error)) {
	for {
		err := agent.Run(ctx, conn, agent.Config{})
		if err == nil {
			return
		}
		failed(fmt.Errorf("agent: %w", err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(restart):
		}
	}
}
