package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/proc"
)

// generator is an independent load generator. It verifies the figures of package load. It reports no latency
// percentiles, and counts all of its calls.
type generator string

const (
	h2load generator = "h2load"
	wrk    generator = "wrk"
)

// missing returns how to install the generator, or "" if it is installed.
func (g generator) missing() string {
	if g == "" {
		return ""
	}
	if _, err := exec.LookPath(string(g)); err != nil {
		return fmt.Sprintf("%s is not installed: apt-get install %s", g, map[generator]string{h2load: "nghttp2-client",
			wrk: "wrk"}[g])
	}
	return ""
}

// window runs b.window with the generator.
func (g generator) window(b *bench) func(context.Context, *peers.Peer, load.Config) (load.Result, error) {
	return func(ctx context.Context, p *peers.Peer, cfg load.Config) (load.Result, error) {
		cfg.Key = p.Spec.Key
		args, read := h2loadArgs, readH2load
		if g == wrk {
			args, read = wrkArgs, readWrk
		}
		files, err := os.MkdirTemp(b.dir, string(g))
		if err != nil {
			return load.Result{}, err
		}
		arguments, err := args(p, cfg, filepath.Join(files, "body"))
		if err != nil {
			return load.Result{}, err
		}
		res, out, err := b.generate(ctx, p, exec.CommandContext(ctx, string(g), arguments...))
		if err == nil {
			err = read(&res, out, int64(cfg.Work.Size))
		}
		return res, err
	}
}

// generate runs a generator.
func (b *bench) generate(ctx context.Context, p *peers.Peer, cmd *exec.Cmd) (res load.Result, out []byte, err error) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	timer := time.AfterFunc(b.opts.window+time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	backend := b.backend.cmd.Process.Pid
	before, err := usedBy(p.PID, backend)
	if err != nil {
		return res, nil, err
	}
	began := time.Now()
	if err := proc.Start(cmd, b.opts.loadCore); err != nil {
		return res, nil, err
	}
	if err := cmd.Wait(); err != nil {
		return res, nil, fmt.Errorf("%s: %w: %s", cmd.Path, err, bytes.TrimSpace(said.Bytes()))
	}
	after, err := usedBy(p.PID, backend)
	if err != nil {
		return res, nil, err
	}
	res.Seconds = time.Since(began).Seconds()
	res.LoadCPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	res.ProxyCPU, res.BackendCPU = after.proxy-before.proxy, after.backend-before.backend
	res.OtherCPU = max(0, after.machine.Used-before.machine.Used-res.ProxyCPU-res.BackendCPU-res.LoadCPU)
	res.Stolen = after.machine.Stolen - before.machine.Stolen
	return res, said.Bytes(), nil
}

// wrkScript is a script for wrk. Its arguments are the header fields and the body.
const wrkScript = `wrk.method = "POST"
%swrk.body = %q
`

func wrkArgs(p *peers.Peer, cfg load.Config, script string) ([]string, error) {
	var fields strings.Builder
	for _, f := range append(cfg.Fields(), [2]string{"content-type", "application/json"}) {
		fmt.Fprintf(&fields, "wrk.headers[%q] = %q\n", f[0], f[1])
	}
	program := fmt.Sprintf(wrkScript, fields.String(), cfg.JSON.Body)
	seconds := max(1, int(cfg.Window.Round(time.Second)/time.Second))
	return []string{"-t", "1", "-c", strconv.Itoa(cfg.Conns), "-d", fmt.Sprintf("%ds", seconds), "-s", script,
			"http://" + p.Addr.String() + cfg.JSON.Path},
		os.WriteFile(script, []byte(program), 0o600)
}

// Patterns in wrk's summary.
var (
	wrkCalls = regexp.MustCompile(`(\d+) requests in `)
	wrkBad   = regexp.MustCompile(`(?m)^ *(Non-2xx or 3xx responses: .*|Socket errors: .*)$`)
)

// readWrk parses wrk's summary.
func readWrk(res *load.Result, out []byte, _ int64) error {
	calls := wrkCalls.FindSubmatch(out)
	if calls == nil {
		return fmt.Errorf("unexpected output of wrk: %s", bytes.TrimSpace(out))
	}
	res.Calls, _ = strconv.ParseInt(string(calls[1]), 10, 64)
	res.Total = res.Calls
	if bad := wrkBad.Find(out); bad != nil {
		return fmt.Errorf("wrk: %s", bytes.TrimSpace(bad))
	}
	return nil
}

// Patterns in h2load's summary.
var (
	h2loadCalls  = regexp.MustCompile(`(\d+) succeeded, (\d+) failed, (\d+) errored`)
	h2loadStatus = regexp.MustCompile(`status codes: (\d+) 2xx`)
	h2loadData   = regexp.MustCompile(`\((\d+)\) data`)
)

func h2loadArgs(p *peers.Peer, cfg load.Config, body string) ([]string, error) {
	scheme := "http"
	if p.Spec.TLS {
		scheme = "https"
	}
	args := []string{"-t", "1", "-c", strconv.Itoa(cfg.Conns), "-m", strconv.Itoa(cfg.Streams),
		"-D", fmt.Sprintf("%dms", cfg.Window.Milliseconds()), "-d", body}
	for _, f := range cfg.Fields() {
		args = append(args, "-H", f[0]+": "+f[1])
	}
	path, content := h2.PathInvoke, h2.InvokeRequest(cfg.Work, "weather", "bench-session-1", cfg.RequestSize)
	if cfg.JSON != nil {
		path, content = cfg.JSON.Path, cfg.JSON.Body
		args = append(args, "-H", "content-type: application/json")
	} else {
		args = append(args, "-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "grpc-timeout: 10S")
	}
	return append(args, scheme+"://"+p.Addr.String()+path), os.WriteFile(body, content, 0o600)
}

// readH2load parses h2load's summary. A successful call has a response of the given size: h2load does not recognize
// gRPC errors.
func readH2load(res *load.Result, out []byte, size int64) error {
	calls, data, status := h2loadCalls.FindSubmatch(out), h2loadData.FindSubmatch(out), h2loadStatus.FindSubmatch(out)
	if calls == nil || data == nil || status == nil {
		return fmt.Errorf("unexpected output of h2load: %s", bytes.TrimSpace(out))
	}
	number := func(digits []byte) int64 {
		n, _ := strconv.ParseInt(string(digits), 10, 64)
		return n
	}
	res.Calls, res.Errors, res.Bytes = number(calls[1]), number(calls[2])+number(calls[3]), number(data[1])
	res.Total = res.Calls
	if good := number(status[1]); good < res.Calls || res.Bytes < res.Calls*size {
		return fmt.Errorf("h2load: of %d calls %d have the status 200; others have no result, or an error of gRPC",
			res.Calls, good)
	}
	return nil
}

// used is the processor time of a proxy, of the backend and of the whole machine.
type used struct {
	proxy, backend time.Duration
	machine        proc.Busy
}

func usedBy(proxy, backend int) (u used, err error) {
	if u.proxy, err = proc.CPU(proxy); err != nil {
		return u, err
	}
	if u.backend, err = proc.CPU(backend); err != nil {
		return u, err
	}
	u.machine, err = proc.Machine()
	return u, err
}
