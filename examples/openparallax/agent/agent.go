// Package agent is the agent of an OpenParallax engine, with a model that follows a script: what
// a message says decides what becomes of it.
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
// It reads its stream like published agents: a message that comes while another is worked on
// keeps it from reading on, the other's tool results included. So two messages at once can
// stop it for good.
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

// firstDirective is how long the engine may take to say which tools there are.
const firstDirective = 10 * time.Second

// Config says who an agent is. The zero value works with an engine that asks for no token.
type Config struct {
	Name  string // default "Atlas"
	Token string // a secret between the engine and its agent

	// Ready is called when the engine has taken it, Received for each message when it comes, Think
	// when its turn has come. They may block. Default: nothing.
	Ready    func()
	Received func(*openparallaxv1.ProcessRequest)
	Think    func(context.Context, *openparallaxv1.ProcessRequest)
}

// agent is a session with an engine.
type agent struct {
	cfg    Config
	stream openparallaxv1.AgentService_RunSessionClient
	// results are for the message that is worked on. Closed by read.
	results chan *openparallaxv1.EngineDirective
}

// Run is an agent until the engine tells it to go or ctx ends, which are no errors, or the
// stream is lost.
func Run(ctx context.Context, conn grpc.ClientConnInterface, cfg Config) error {
	if cfg.Name == "" {
		cfg.Name = "Atlas"
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := openparallaxv1.NewAgentServiceClient(conn).RunSession(ctx, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("open the session: %w", err)
	}
	a := &agent{cfg: cfg, stream: stream, results: make(chan *openparallaxv1.EngineDirective, 4)}
	if err := a.ready(cancel); err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready()
	}
	var lost error // both are read once reading ended
	var told bool
	var reading sync.WaitGroup
	messages := make(chan *openparallaxv1.ProcessRequest)
	reading.Go(func() {
		if told, lost = a.read(ctx, messages); !told {
			cancel() // there is nobody to think for
		}
	})
	for m := range messages {
		if cfg.Think != nil {
			cfg.Think(ctx, m)
		}
		if err := a.process(m); err != nil {
			cancel() // the stream is lost: read knows why
		}
	}
	reading.Wait()
	if told {
		lost = a.leave()
	}
	if outer.Err() != nil {
		return nil
	}
	return lost
}

// ready says who it is, and waits to be told which tools there are.
func (a *agent) ready(cancel func()) error {
	err := a.send(&openparallaxv1.AgentEvent{Event: &openparallaxv1.AgentEvent_Ready{
		Ready: &openparallaxv1.AgentReady{AgentId: a.cfg.Name + ":" + a.cfg.Token},
	}})
	if err != nil && !errors.Is(err, io.EOF) { // else the stream has ended, and Recv says why
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

// read hands on what the engine says, one after the other, until the agent is told to go or the stream
// ends. It closes messages and the results.
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

// leave says goodbye and hears the engine out.
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
