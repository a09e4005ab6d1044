package cli

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/examples/openparallax"
	"github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

// demoEngine is an OpenParallax engine. Its agents connect through the gateway. A nil demoEngine does nothing.
type demoEngine struct {
	process *openparallax.Process
}

func listenForEngine(stderr io.Writer) (*demoEngine, error) {
	p, err := openparallax.Listen(openparallax.Config{Failed: func(err error) {
		fmt.Fprintf(stderr, "capgate demo: %v\n", err)
	}})
	if err != nil {
		return nil, err
	}
	return &demoEngine{p}, nil
}

// fleets returns the engine's fleet, which takes every call of its services: agents and clients of engines name none.
func (d *demoEngine) fleets() []config.Fleet {
	if d == nil {
		return nil
	}
	fleet := config.DefaultFleet("engine-1", d.process.Addr().String())
	var settings engine.Settings
	config.SetDefaults(&settings)
	fleet.Protocol, fleet.Policy = &settings, call.Allow
	fleet.Affinity.Sessions = true
	for _, s := range []grpc.ServiceDesc{
		openparallaxv1.AgentService_ServiceDesc, openparallaxv1.ClientService_ServiceDesc,
		openparallaxv1.SubAgentService_ServiceDesc, openparallaxv1.ShieldService_ServiceDesc,
	} {
		fleet.Services = append(fleet.Services, s.ServiceName)
	}
	return []config.Fleet{fleet}
}

// serve serves the engine until ctx ends or stop is called, which waits for it.
func (d *demoEngine) serve(ctx context.Context, gateway string, stderr io.Writer) (stop func()) {
	if d == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.process.Run(ctx, gateway); err != nil {
			fmt.Fprintf(stderr, "capgate demo: engine: %v\n", err)
		}
	}()
	return func() { cancel(); <-ended }
}

// greeting returns commands to try.
func (d *demoEngine) greeting(public string) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf(`The OpenParallax engine "engine-1", with its agent:

  grpcurl -plaintext -d '{"session_id":"mine","content":"tool: read_file {\"path\":\"a.txt\"}","mode":"NORMAL"}' `+
		`%[1]s openparallax.v1.ClientService/SendMessage

  grpcurl -plaintext -d '{"session_id":"mine"}' %[1]s openparallax.v1.ClientService/GetHistory

`, public)
}
