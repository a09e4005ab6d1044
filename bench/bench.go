package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/proc"
	"github.com/capgate/capgate/bench/readme"
)

// bench owns the processes of a run.
type bench struct {
	opts    options
	self    string
	dir     string
	backend *server // on the load generator's core
	env     peers.Env
	running []*peers.Peer
	began   time.Time
	on      *everything // nil until a peer needs it
}

// run measures what the options select and prints the tables.
func run(ctx context.Context, o options) error {
	b := &bench{opts: o}
	defer b.close()
	if err := b.begin(); err != nil {
		return err
	}
	var text, mark string
	var err error
	switch {
	case o.profiles != "" && !o.neighbour:
		text, err = b.profiles(ctx)
	case o.growth:
		mark = "growth"
		text, err = b.growth(ctx)
	case o.tenants:
		mark = "tenants"
		text, err = b.tenants(ctx)
	case o.policy:
		mark = "policy"
		text, err = b.policy(ctx)
	case o.tables:
		mark = "tables"
		text, err = b.tables(ctx)
	case o.neighbour:
		mark = "neighbour"
		text, err = b.neighbour(ctx)
	case o.files:
		mark = "files"
		text, err = b.files(ctx)
	case o.mcp:
		mark = "mcp"
		text, err = b.mcp(ctx)
	case o.redis:
		mark = "redis"
		text, err = b.redis(ctx)
	case o.connections:
		mark = "connections"
		text, err = b.connections(ctx)
	default:
		mark = "results"
		text, err = b.compare(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	return readme.Rewrite(o.out, mark, text)
}

// server is a running backend.
type server struct {
	cmd  *exec.Cmd
	addr netip.AddrPort
}

func (b *bench) startBackend(cores []int) (*server, error) {
	cmd := exec.Command(b.self, roleBackend)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := proc.Start(cmd, cores); err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	s := &server{cmd: cmd}
	if err := json.NewDecoder(out).Decode(&s.addr); err != nil {
		proc.Stop(cmd, time.Second)
		return nil, fmt.Errorf("backend: %w", err)
	}
	return s, nil
}

// begin starts the backend.
func (b *bench) begin() (err error) {
	b.began = time.Now()
	var files syscall.Rlimit // thousands of connections need descriptors; child processes inherit the limit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "capgate-bench-"); err != nil {
		return err
	}
	if b.backend, err = b.startBackend(b.opts.loadCore); err != nil {
		return err
	}
	b.env = peers.Env{Dir: b.dir, Self: b.self, Backend: b.backend.addr, Cores: b.opts.proxyCore,
		Capgate: b.opts.capgate}
	return nil
}

// close ends every process and removes their files.
func (b *bench) close() {
	for _, p := range b.running {
		p.Stop()
	}
	if b.on != nil {
		b.on.servers.Close()
	}
	if b.backend != nil {
		proc.Stop(b.backend.cmd, time.Second)
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// startPeer starts a peer and makes a few calls through it to check that it works.
func (b *bench) startPeer(ctx context.Context, s peers.Spec, env peers.Env) (*peers.Peer, error) {
	return b.startPeerFor(ctx, s, env, load.Config{
		Mode: load.Closed, Method: load.Invoke, Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1}, RequestSize: 1,
		Capabilities: env.Capgate.Capabilities,
	})
}

// startPeerFor is startPeer with calls of another protocol.
func (b *bench) startPeerFor(ctx context.Context, s peers.Spec, env peers.Env, probe load.Config) (*peers.Peer,
	error) {
	if s.On {
		if b.on == nil {
			on, err := turnOn(ctx)
			if err != nil {
				return nil, err
			}
			b.on = on
		}
		s.Key = b.on.key
		env.Capgate = b.on.of(env.Capgate)
	}
	p, err := peers.Start(ctx, s, env)
	if err != nil {
		return nil, err
	}
	b.running = append(b.running, p)
	err = b.try(ctx, p, probe)
	if err == nil && s.On {
		// Downloads request the artifact that the backend's response to an upload names.
		err = b.try(ctx, p, load.Config{Mode: load.Closed, Method: load.Upload, RequestSize: 1, Chunks: 1})
	}
	if err != nil {
		b.stopPeer(p)
		return nil, fmt.Errorf("%s does not answer: %w; output: %s", s.Name, err, p.Said())
	}
	settle(ctx, p)
	return p, nil
}

// try makes a few calls until they succeed.
func (b *bench) try(ctx context.Context, p *peers.Peer, cfg load.Config) (err error) {
	cfg.Window = 50 * time.Millisecond
	const tries = 20
	for range tries {
		var res load.Result
		if res, err = b.window(ctx, p, cfg); err == nil && res.Errors > 0 {
			err = errors.New(res.Problem)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
	return err
}

// settle waits until a peer has finished its startup work, such as checking the health of thousands of backends, for at
// most a minute.
func settle(ctx context.Context, p *peers.Peer) {
	const step, idle = 200 * time.Millisecond, 4 * time.Millisecond
	for began := time.Now(); time.Since(began) < time.Minute && ctx.Err() == nil; {
		before, err := proc.CPU(p.PID)
		if err != nil {
			return
		}
		pause(ctx, step)
		if after, err := proc.CPU(p.PID); err != nil || after-before < idle {
			return
		}
	}
}

func (b *bench) stopPeer(p *peers.Peer) {
	p.Stop()
	for i, q := range b.running {
		if q == p {
			b.running = append(b.running[:i], b.running[i+1:]...)
			return
		}
	}
}

// window runs the load generator once against a peer.
func (b *bench) window(ctx context.Context, p *peers.Peer, cfg load.Config) (load.Result, error) {
	l, err := b.startLoad(ctx, p, cfg)
	if err != nil {
		return load.Result{}, err
	}
	return l.wait()
}

// loading is a running load generator.
type loading struct {
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	out, complaint bytes.Buffer
}

// startLoad starts a window.
func (b *bench) startLoad(ctx context.Context, p *peers.Peer, cfg load.Config) (*loading, error) {
	cfg.Target, cfg.Proxy, cfg.Backend = p.Addr, p.PID, b.backend.cmd.Process.Pid
	if cfg.Key == "" {
		cfg.Key = p.Spec.Key
	}
	threads := 1
	if p.Spec.TLS {
		cfg.TLS, threads = true, 2 // the bridge's goroutines and the loop
	}
	input, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	const spare = time.Minute // for connecting, opening, settling and draining
	ctx, cancel := context.WithTimeout(ctx, cfg.Warm+cfg.Window+spare)
	l := &loading{cmd: exec.CommandContext(ctx, b.self, roleLoad), cancel: cancel}
	l.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", threads))
	l.cmd.Stdin = bytes.NewReader(input)
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.complaint
	if err := proc.Start(l.cmd, b.opts.loadCore); err != nil {
		cancel()
		return nil, fmt.Errorf("load generator: %w", err)
	}
	return l, nil
}

// wait waits until the load generator ends, and returns its result.
func (l *loading) wait() (res load.Result, err error) {
	defer l.cancel()
	if err := l.cmd.Wait(); err != nil {
		return res, fmt.Errorf("load generator: %w: %s", err, bytes.TrimSpace(l.complaint.Bytes()))
	}
	return res, json.Unmarshal(l.out.Bytes(), &res)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
