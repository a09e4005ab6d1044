package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/proc"
)

// missing says why a scenario cannot be measured, "" when it can.
func (s scenario) missing() string {
	if !s.h2load {
		return ""
	}
	if _, err := exec.LookPath("h2load"); err != nil {
		return "h2load is not installed: apt-get install nghttp2-client"
	}
	return ""
}

// The patterns of h2load's summary.
var (
	h2loadCalls = regexp.MustCompile(`(\d+) succeeded, (\d+) failed, (\d+) errored`)
	h2loadData  = regexp.MustCompile(`\((\d+)\) data`)
)

// h2load is window with nghttp2's generator, which knows nothing of this program: a check of what package load says.
// It tells no percentiles of latency, and all of its calls count.
func (b *bench) h2load(ctx context.Context, p *peers.Peer, cfg load.Config) (res load.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Window+time.Minute)
	defer cancel()
	body := filepath.Join(b.dir, "h2load.body")
	message := h2.InvokeRequest(cfg.Work, "weather", "bench-session-1", cfg.RequestSize)
	if err := os.WriteFile(body, message, 0o600); err != nil {
		return res, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "h2load", h2loadArgs(p, cfg, body)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	backend := b.backend.cmd.Process.Pid
	before, err := usedBy(p.PID, backend)
	if err != nil {
		return res, err
	}
	began := time.Now()
	if err := proc.Start(cmd, b.opts.loadCore); err != nil {
		return res, fmt.Errorf("h2load: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return res, fmt.Errorf("h2load: %w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	after, err := usedBy(p.PID, backend)
	if err != nil {
		return res, err
	}
	res.Seconds = time.Since(began).Seconds()
	res.LoadCPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	res.ProxyCPU, res.BackendCPU = after.proxy-before.proxy, after.backend-before.backend
	res.OtherCPU = max(0, after.machine.Used-before.machine.Used-res.ProxyCPU-res.BackendCPU-res.LoadCPU)
	res.Stolen = after.machine.Stolen - before.machine.Stolen
	err = readH2load(&res, out.Bytes(), int64(cfg.Work.Size))
	return res, err
}

func h2loadArgs(p *peers.Peer, cfg load.Config, body string) []string {
	scheme := "http"
	if p.Spec.TLS {
		scheme = "https"
	}
	args := []string{
		"-t", "1", "-c", strconv.Itoa(cfg.Conns), "-m", strconv.Itoa(cfg.Streams),
		"-D", fmt.Sprintf("%dms", cfg.Window.Milliseconds()), "-d", body,
		"-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "grpc-timeout: 10S",
	}
	if p.Spec.Key != "" {
		args = append(args, "-H", "authorization: Bearer "+p.Spec.Key)
	}
	return append(args, scheme+"://"+p.Addr.String()+h2.PathInvoke)
}

// readH2load reads what h2load wrote. A call that succeeded has an answer of so many bytes: h2load does not know
// errors of gRPC.
func readH2load(res *load.Result, out []byte, size int64) error {
	calls, data := h2loadCalls.FindSubmatch(out), h2loadData.FindSubmatch(out)
	if calls == nil || data == nil {
		return fmt.Errorf("h2load said: %s", bytes.TrimSpace(out))
	}
	number := func(digits []byte) int64 {
		n, _ := strconv.ParseInt(string(digits), 10, 64)
		return n
	}
	res.Calls, res.Errors, res.Bytes = number(calls[1]), number(calls[2])+number(calls[3]), number(data[1])
	res.Total = res.Calls
	if res.Bytes < res.Calls*size {
		return errors.New("h2load: calls had no answer, or an error of gRPC")
	}
	return nil
}

// used is the processor time of a proxy, of the backend and of the whole machine up to now.
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
