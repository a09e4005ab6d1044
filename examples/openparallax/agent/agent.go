// Package agent is the agent of an OpenParallax engine, with a model that follows a script: the text of a message
// decides the agent's actions.
//
//	tool: NAME ARGUMENTS   proposes that tool, and answers with its result
//	approve: COMMAND       runs a command, which a person has to approve
//	load: GROUPS           asks for the tools of some groups, and answers with their names
//	remember: TEXT         has the engine remember something
//	delegate: TASK         gives a sub-agent a task, and answers with its result
//	flood: N               answers with N KiB
//	fail                   fails
//	anything else          is repeated
//
// It reads its stream as published agents do: a message that arrives while another one is being processed blocks the
// reader, and with it the tool results of the first. Two overlapping messages can therefore stop the agent until it is
// restarted.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// firstDirective is the timeout for the engine's first list of tools.
const firstDirective = 10 * time.Second

// Config configures an agent. The zero value works with an engine that needs no token.
type Config struct {
	Name  string // default "Atlas"
	Token string // a secret between the engine and its agent

	// Ready is called when the engine has accepted the agent, Received when a message arrives, and Think when the agent
	// starts to process it. They may block. Default: no calls.
	Ready    func()
	Received func(*openparallaxv1.ProcessRequest)
	Think    func(context.Context, *openparallaxv1.ProcessRequest)
}

// agent is a session with an engine.
type agent struct {
	cfg    Config
	stream openparallaxv1.AgentService_RunSessionClient
	// results receives the results for the current message. It is closed by read.
	results chan *openparallaxv1.EngineDirective
}

// Run runs an agent until the engine shuts it down, its stream ends with OK, ctx ends, or the stream is lost. Only the
// last case is an error, after which an engine restarts its agent.
func Run(ctx context.Context, conn grpc.ClientConnInterface, cfg Config) error {
	if cfg.Name == "" {
		cfg.Name = "Atlas"
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := openparallaxv1.NewAgentServiceClient(conn).RunSession(ctx)
	if err != nil {
		return fmt.Errorf("open the session: %w", err)
	}
	a := &agent{cfg: cfg, stream: stream, results: make(chan *openparallaxv1.EngineDirective, 4)}
	switch err := a.ready(cancel); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready()
	}
	var lost error // both are read after the reader has ended
	var told bool
	var reading sync.WaitGroup
	messages := make(chan *openparallaxv1.ProcessRequest)
	reading.Go(func() {
		if told, lost = a.read(ctx, messages); !told {
			cancel() // the engine has gone
		}
	})
	for m := range messages {
		if cfg.Think != nil {
			cfg.Think(ctx, m)
		}
		if err := a.process(m); err != nil {
			cancel() // the stream is lost; read has the reason
		}
	}
	reading.Wait()
	if told {
		lost = a.leave()
	}
	if outer.Err() != nil || errors.Is(lost, io.EOF) {
		return nil
	}
	return lost
}

// ready introduces the agent and waits for the list of tools.
func (a *agent) ready(cancel func()) error {
	err := a.send(&openparallaxv1.AgentEvent{Event: &openparallaxv1.AgentEvent_Ready{
		Ready: &openparallaxv1.AgentReady{AgentId: a.cfg.Name + ":" + a.cfg.Token},
	}})
	if err != nil && !errors.Is(err, io.EOF) { // after EOF, Recv has the reason
		return err
	}
	late := time.AfterFunc(firstDirective, cancel)
	defer late.Stop()
	first, err := a.stream.Recv()
	if err != nil {
		return fmt.Errorf("wait for initial tool defs: %w", err)
	}
	if len(first.GetInitialToolDefs().GetTools()) == 0 {
		return fmt.Errorf("expected InitialToolDefs as first directive, got %T", first.GetDirective())
	}
	return nil
}

// read passes on the engine's directives, in order, until the agent is shut down or the stream ends. It closes messages
// and results.
func (a *agent) read(ctx context.Context, messages chan<- *openparallaxv1.ProcessRequest) (told bool, err error) {
	defer close(messages)
	defer close(a.results)
	for {
		d, err := a.stream.Recv()
		if err != nil {
			return false, fmt.Errorf("agent stream: %w", err)
		}
		switch what := d.GetDirective().(type) {
		case *openparallaxv1.EngineDirective_Process:
			if a.cfg.Received != nil {
				a.cfg.Received(what.Process)
			}
			select {
			case messages <- what.Process:
			case <-ctx.Done():
				return false, ctx.Err()
			}
		case *openparallaxv1.EngineDirective_Shutdown:
			return true, nil
		default:
			select {
			case a.results <- d:
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
	}
}

// leave half-closes the stream and reads it to its end.
func (a *agent) leave() error {
	if err := a.stream.CloseSend(); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	for {
		if _, err := a.stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("leave: %w", err)
		}
	}
}

func (a *agent) send(e *openparallaxv1.AgentEvent) error {
	if err := a.stream.Send(e); err != nil {
		return fmt.Errorf("agent stream: %w", err)
	}
	return nil
}
