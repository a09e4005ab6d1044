// Package openparallax is an OpenParallax engine with its agents in one process:
//
//	openparallax.go  the process: it listens on loopback alone, and starts its own agent
//	supervisor.go    when the agent is started again, and when it is given up
//	localhost.go     the addresses of the name localhost
//	engine/          the engine's services
//	agent/           the agent and sub-agents, which are clients of the engine
//	shield/          what the engine asks about actions
package openparallax

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
)

// Config configures an engine with its agents. The zero value works.
type Config struct {
	Port   int           // web.grpc_port; if it is 0 or in use, a random one
	Hosts  Hosts         // default: those of the system
	Engine engine.Config // its Token and Spawn are replaced
	// Pause waits before a failed agent is restarted; default one second. It ends with ctx.
	Pause  func(ctx context.Context)
	Failed func(error) // receives errors of agents; default: discarded
}

// Process is a listening engine.
type Process struct {
	Engine *engine.Engine

	cfg    Config
	ln     net.Listener
	token  string
	agents string      // address that agents dial
	subs   chan string // tokens of sub-agents to start
	quit   chan struct{}
}

// Listen returns an engine that listens on loopback.
func Listen(cfg Config) (*Process, error) {
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	if cfg.Pause == nil {
		cfg.Pause = pause
	}
	ln, err := cfg.Hosts.listen(cfg.Port)
	if err != nil {
		return nil, err
	}
	p := &Process{cfg: cfg, ln: ln, token: rand.Text(), subs: make(chan string, 100), quit: make(chan struct{})}
	cfg.Engine.Token, cfg.Engine.Spawn = p.token, func(token string) { p.subs <- token }
	p.Engine = engine.New(cfg.Engine)
	return p, nil
}

// Addr returns the engine's address. Its agents and the terminal UI learn its port.
func (p *Process) Addr() *net.TCPAddr { return p.ln.Addr().(*net.TCPAddr) }

// Quit is closed when the engine no longer starts its agent: the agent has quit, or has failed too often.
func (p *Process) Quit() <-chan struct{} { return p.quit }

// Run serves the engine with its agents until ctx ends or a client shuts it down. agents is the address that agents
// dial, which users of published engines cannot set; if it is "", it is localhost with the engine's port.
func (p *Process) Run(ctx context.Context, agents string) error {
	p.agents = cmp.Or(agents, net.JoinHostPort("localhost", strconv.Itoa(p.Addr().Port)))
	// The engine shuts its agent down.
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() {
		defer close(p.quit)
		if err := p.supervise(alive); err != nil {
			p.cfg.Failed(err)
		}
	})
	working.Go(func() {
		for {
			select {
			case token := <-p.subs:
				working.Go(func() { p.runSub(alive, token) })
			case <-alive.Done():
				return
			}
		}
	})
	return p.Engine.Serve(ctx, p.ln)
}

// dial returns a separate connection for each agent, as agents are processes.
func (p *Process) dial() (*grpc.ClientConn, error) {
	target, opts := p.cfg.Hosts.Target(p.agents)
	return grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

func (p *Process) runAgent(ctx context.Context) error {
	conn, err := p.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	return agent.Run(ctx, conn, agent.Config{Token: p.token})
}

func (p *Process) runSub(ctx context.Context, token string) {
	conn, err := p.dial()
	if err == nil {
		defer conn.Close()
		err = agent.RunSub(ctx, conn, token)
	}
	if err != nil {
		p.cfg.Failed(fmt.Errorf("sub-agent: %w", err))
	}
}
