package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/capgate/capgate/bench/backend"
	"github.com/capgate/capgate/bench/grpcproxy"
	"github.com/capgate/capgate/bench/jsonproxy"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/mcpproxy"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/tcprelay"
)

// Roles of child processes. Package peers has the roles of peers.
const (
	roleLoad    = "as-load"    // reads a load.Config, writes a load.Result
	roleBackend = "as-backend" // writes its listening address
)

func main() {
	// A child process is killed when the thread that started it ends (proc.Start), so the main goroutine keeps its
	// thread.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "bench: interrupted")
		os.Exit(130)
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case roleLoad:
			return asLoad()
		case roleTable:
			return asTable(args[1:])
		case roleBackend:
			return asBackend()
		case peers.RoleGRPCProxy:
			return asGRPCProxy(args[1:])
		case peers.RoleJSONProxy:
			return asJSONProxy(args[1:])
		case peers.RoleMCPProxy:
			return asMCPProxy(args[1:])
		case peers.RoleTCPRelay:
			return asTCPRelay(args[1:])
		}
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return run(ctx, o)
}

func asLoad() error {
	var cfg load.Config
	if err := json.NewDecoder(os.Stdin).Decode(&cfg); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	res, err := load.Run(cfg)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

func asBackend() error {
	b, err := backend.New(backend.Config{})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(b.Addr()); err != nil {
		return err
	}
	return b.Serve(func() bool { return false }) // until the process is killed
}

// listenAndBackend parses a proxy role's arguments.
func listenAndBackend(args []string) (net.Listener, string, error) {
	if len(args) != 2 {
		return nil, "", errors.New("want a listening address and the backend's address")
	}
	if _, err := netip.ParseAddrPort(args[1]); err != nil {
		return nil, "", err
	}
	ln, err := net.Listen("tcp", args[0])
	return ln, args[1], err
}

func asGRPCProxy(args []string) error {
	ln, to, err := listenAndBackend(args)
	if err != nil {
		return err
	}
	p, err := grpcproxy.New(to)
	if err != nil {
		return err
	}
	return p.Serve(ln)
}

func asJSONProxy(args []string) error {
	ln, to, err := listenAndBackend(args)
	if err != nil {
		return err
	}
	p, err := jsonproxy.New(to)
	if err != nil {
		return err
	}
	return p.Serve(ln)
}

// asMCPProxy runs the MCP proxy. Its first argument is the tool.
func asMCPProxy(args []string) error {
	if len(args) < 1 {
		return errors.New("want a tool, a listening address and the backend's address")
	}
	ln, to, err := listenAndBackend(args[1:])
	if err != nil {
		return err
	}
	p, err := mcpproxy.New(to, args[0])
	if err != nil {
		return err
	}
	return p.Serve(ln)
}

func asTCPRelay(args []string) error {
	ln, to, err := listenAndBackend(args)
	if err != nil {
		return err
	}
	return tcprelay.Serve(ln, to)
}
