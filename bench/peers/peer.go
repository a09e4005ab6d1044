package peers

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/proc"
)

// Env is the environment of a peer.
type Env struct {
	Dir     string         // for configuration and logs; each peer gets its own subdirectory
	Self    string         // path of this program, which plays some of the peers
	Backend netip.AddrPort // destination of calls
	Cores   []int          // cores of the peer; all if empty
	Capgate Capgate
	TLS     bool // serve TLS, with cert.pem and key.pem of the peer's directory, or both.pem; Start sets it
}

// Spec describes a peer.
type Spec struct {
	Name    string // in flags
	Title   string // in tables
	Binary  string // looked up in PATH; "" for peers that this program plays
	Package string // package of Debian with the binary
	Install string // how to install the binary if no package of Debian has it
	Bytes   bool   // relays bytes without knowledge of HTTP/2
	TLS     bool   // its listener expects TLS
	Secure  bool   // supports TLS
	On      bool   // is capgate with everything on
	Key     string // API key of calls; "" for none
	Path    string // capgate's binary instead of Env.Capgate.Path
	build   func(env Env, dir string, listen netip.AddrPort) (command, error)
}

// command is a process to start, with the files that it reads.
type command struct {
	path  string
	args  []string
	env   []string
	files map[string]string // name in the peer's directory → content
	admin netip.AddrPort    // where it serves metrics, if any
	log   string            // where its output goes; default is a file in its directory
}

// Peer is a running proxy.
type Peer struct {
	Spec  Spec
	Addr  netip.AddrPort
	Admin netip.AddrPort // where it serves metrics; invalid if it has none
	PID   int

	cmd *exec.Cmd
	log string
}

// Missing returns how to install a missing peer, or "" if it is installed.
func (s Spec) Missing() string {
	if s.Binary == "" {
		return ""
	}
	if _, err := exec.LookPath(s.Binary); err == nil {
		return ""
	}
	install := s.Install
	if install == "" {
		install = "apt-get install " + s.Package
	}
	return fmt.Sprintf("%s is not installed: %s", s.Binary, install)
}

// Start starts a peer and waits until it accepts connections.
func Start(ctx context.Context, s Spec, env Env) (*Peer, error) {
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(env.Dir, s.Name+"-")
	if err != nil {
		return nil, err
	}
	if env.TLS = s.TLS; s.TLS {
		if err := writeCertificate(dir); err != nil {
			return nil, err
		}
	}
	if s.Path != "" {
		env.Capgate.Path = s.Path
	}
	c, err := s.build(env, dir, listen)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	for name, content := range c.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	p := &Peer{Spec: s, Addr: listen, Admin: c.admin, log: filepath.Join(dir, "output.log")}
	if c.log != "" {
		p.log = c.log
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = dir, append(os.Environ(), c.env...), out, out
	if err := proc.Start(p.cmd, env.Cores); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	p.PID = p.cmd.Process.Pid
	if err := p.await(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Stop ends the peer.
func (p *Peer) Stop() { proc.Stop(p.cmd, 3*time.Second) }

// Said returns the end of the peer's output.
func (p *Peer) Said() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	const most = 2000
	return strings.TrimSpace(string(b[max(0, len(b)-most):]))
}

// await returns when the peer accepts connections.
func (p *Peer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", p.Addr.String())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w; output: %s", p.Spec.Name, err, p.Said())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePort returns a free port. Each peer has its own: two proxies that share one by SO_REUSEPORT would also share the
// calls.
func freePort() (netip.AddrPort, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(addr)
}
