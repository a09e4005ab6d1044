package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/examples/weather"
	"github.com/capgate/capgate/internal/app"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/sharedkey"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/settings"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

const demoHelp = `The gateway has embedded defaults, and runs with its backends in one process, until Ctrl-C. It prints
a line for each call. With --log-level it prints its log instead. --openparallax adds an OpenParallax
engine, whose agent follows a script. --weather serves only the capability, for a gateway elsewhere.`

// demoReplicas is the number of backends of the demonstration. They share one store of
// artifacts, as replicas of a real capability would share theirs.
const demoReplicas = 2

// demoManifest is the path by which the configuration names the manifest in the program.
const demoManifest = "weather/manifest.yaml"

// newDemoCommand returns the command capgate demo.
func newDemoCommand(std stdio) *cobra.Command {
	c := &cobra.Command{Use: "demo", Short: "run the gateway and two replicas of a weather capability",
		Long: demoHelp}
	over := addOverrides(c.Flags())
	withEngine := c.Flags().Bool("openparallax", false, "also run an OpenParallax engine")
	alone := c.Flags().String("weather", "", "serve only the weather capability at this `address`, without a gateway")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *alone != "" {
			return serveCapability(c.Context(), *alone, std.err)
		}
		var engine *demoEngine
		if *withEngine {
			var err error
			if engine, err = listenForEngine(std.err); err != nil {
				return err
			}
		}
		return demo(c.Context(), over, engine, std)
	}
	return exits(c, "0 the gateway has ended; 1 it cannot run; 2 wrong command line.")
}

// demo serves until ctx ends. The engine may be nil.
func demo(ctx context.Context, over settings.Overrides, engine *demoEngine, std stdio) error {
	backends, stop, err := startReplicas()
	if err != nil {
		return err
	}
	defer stop()
	cfg := config.Default()
	fleet := config.DefaultFleet("weather", backends...)
	fleet.Policy = call.Allow
	fleet.ManifestFile = demoManifest
	// The only fleet accepts all calls of the protocol, so that clients work that name no capability in an upload,
	// a download or a health check.
	fleet.Services = []string{docpb.Capability_ServiceDesc.ServiceName, livepb.Capability_ServiceDesc.ServiceName}
	fleet.Affinity.Artifacts = false
	fleet.EventSource = []string{"get_current_weather", "get_forecast"}
	cfg.Fleets = append(engine.fleets(), fleet)
	cfg.Log.Format, cfg.Log.Level = "text", slog.LevelError
	cfg.Policies.Enabled = true
	cfg.Drain.Delay = 0 // no load balancer has to notice
	// It shares the machine with its only caller, whose browser or build keeps every processor busy.
	cfg.Overload.MaxDelay = 10 * time.Second
	if err := over.Apply(cfg); err != nil {
		return err
	}
	m, err := manifest.Parse("manifest.yaml", weather.Manifest())
	if err != nil {
		return err
	}
	key := make([]byte, sharedkey.Bytes)
	_, _ = rand.Read(key) // which does not fail
	s := &settings.Settings{Config: cfg, Secrets: [][]byte{key},
		Manifests: map[string]*manifest.Manifest{demoManifest: m}}
	if over.Level == nil || *over.Level == "" {
		s.CallLines = &callLines{w: std.out, color: colored(std.out)}
	}
	p, err := app.New(s, appOptions(std))
	if err != nil {
		return err
	}
	public := p.PublicAddr()
	link, _ := p.AdminLink()
	greet(std.out, public, link, exported(link)+engine.greeting(public))
	defer engine.serve(ctx, public, std.err)()
	return p.Run(ctx)
}

// serveCapability serves the capability alone until ctx ends.
func serveCapability(ctx context.Context, address string, log io.Writer) error {
	capability, err := weather.New(weather.Config{})
	if err != nil {
		return fmt.Errorf("weather: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return usageError("--weather %s: %w", address, err)
	}
	fmt.Fprintf(log, "capability \"weather\" at %s. Stop with Ctrl-C.\n", ln.Addr())
	return capability.Serve(ctx, ln)
}

// startReplicas serves the replicas on ports that the kernel chooses.
func startReplicas() (addrs []string, stop func(), err error) {
	capability, err := weather.New(weather.Config{})
	if err != nil {
		return nil, nil, fmt.Errorf("weather: %w", err)
	}
	var servers []*grpc.Server
	var serving sync.WaitGroup
	stop = func() {
		for _, s := range servers {
			s.Stop()
		}
		serving.Wait()
	}
	for range demoReplicas {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("weather: %w", err)
		}
		s := grpc.NewServer()
		docpb.RegisterCapabilityServer(s, capability)
		servers = append(servers, s)
		serving.Go(func() { _ = s.Serve(ln) }) // ends with Stop
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs, stop, nil
}

// exported returns the line for commands of operators at a gateway whose admin API is not at the address that they use
// without a flag; empty if it is.
func exported(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Host == config.Default().Admin {
		return ""
	}
	at := u.Host
	if u.Scheme == "https" {
		at = "https://" + u.Host
	}
	return "Commands for operators, such as capgate status, need the address of the admin API:\n\n" +
		"  export CAPGATE_ADMIN=" + at + "\n\n"
}

// greet says what runs, where, and what to try.
func greet(w io.Writer, public, admin, more string) {
	strong, end := "", ""
	if colored(w) {
		strong, end = bold, plain
	}
	fmt.Fprintf(w, `%[1]scapgate demo%[2]s: a gateway, and two replicas of the capability "weather" behind it.

  calls    http://%[3]s
  docs     http://%[3]s/docs
  MCP      http://%[3]s/mcp
  console  %[4]s

Call a tool from another terminal:

  %[1]scurl http://%[3]s/v1/capabilities/weather/tools/get_current_weather -d '{"location":"Berlin"}'%[2]s

%[5]sEvery call of a tool prints a line here. Stop with Ctrl-C.

`, strong, end, public, admin, more)
}
