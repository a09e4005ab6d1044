package peers

import (
	"fmt"
	"net/netip"
)

// Roles that this program plays in child processes, selected by the first argument.
const (
	RoleGRPCProxy = "as-grpc-proxy"
	RoleTCPRelay  = "as-tcp-relay"
	RoleJSONProxy = "as-json-proxy"
	RoleMCPProxy  = "as-mcp-proxy"
)

// GRPCGo runs package grpcproxy.
func GRPCGo() Spec { return played("grpc-go", "grpc-go proxy", RoleGRPCProxy) }

// TCPRelay runs package tcprelay.
func TCPRelay() Spec {
	s := played("tcp-go", "TCP relay (Go)", RoleTCPRelay)
	s.Bytes = true
	return s
}

// GRPCGateway runs package jsonproxy.
func GRPCGateway() Spec { return measured(played("grpc-gateway", "grpc-gateway", RoleJSONProxy)) }

// MCPProxy runs package mcpproxy with a tool.
func MCPProxy(tool string) Spec {
	return measured(played("go-sdk", "Go SDK proxy", RoleMCPProxy, tool))
}

// measured returns a peer that serves metrics at the address of its calls.
func measured(s Spec) Spec {
	build := s.build
	s.build = func(env Env, dir string, listen netip.AddrPort) (command, error) {
		c, err := build(env, dir, listen)
		c.admin = listen
		return c, err
	}
	return s
}

func played(name, title, role string, more ...string) Spec {
	return Spec{Name: name, Title: title, build: func(env Env, _ string, listen netip.AddrPort) (command, error) {
		return command{path: env.Self, args: append(append([]string{role}, more...), listen.String(),
			env.Backend.String()), env: procs(1)}, nil
	}}
}

func procs(n int) []string { return []string{fmt.Sprintf("GOMAXPROCS=%d", n)} }
