package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// scene is a command in one of two terminals, and its output.
type scene struct {
	agent   bool // in the agent's terminal, else in the approver's
	command string
	output  string
	waits   bool // the output comes after the next scenes
}

// demo is a running `capgate demo`.
type demo struct {
	program, public, admin string
}

// record runs the commands, and returns them with their output.
func record(ctx context.Context) ([]scene, error) {
	dir, err := os.MkdirTemp("", "capgate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory below the system's temporary one
	d := demo{program: filepath.Join(dir, "capgate"), public: freeAddress(), admin: freeAddress()}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", d.program,
		"./cmd/capgate").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building capgate: %w: %s", err, out)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	gateway := exec.CommandContext(ctx, d.program, "demo", "--listen", d.public, "--admin", d.admin)
	gateway.Cancel = func() error { return gateway.Process.Signal(syscall.SIGTERM) }
	if err := gateway.Start(); err != nil {
		return nil, err
	}
	defer gateway.Wait() //nolint:errcheck // stopped by a signal
	defer stop()
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	return d.play(ctx)
}

// play runs the commands of the recording.
func (d demo) play(ctx context.Context) ([]scene, error) {
	const call = `curl -s localhost:8080/v1/capabilities/weather/tools/get_forecast \
    -H 'x-user-id: ann' -H 'Prefer: wait=60' -d '{"location":"Lisbon","days":1}'`
	rule, err := d.run(ctx, "capgate policy set weather get_forecast ask")
	if err != nil {
		return nil, err
	}
	var answer string
	failed := make(chan error, 1)
	go func() {
		var err error
		answer, err = d.run(ctx, call)
		failed <- err
	}()
	list, id, err := d.firstApproval(ctx)
	if err != nil {
		return nil, err
	}
	show, err := d.run(ctx, "capgate approvals show "+id)
	if err != nil {
		return nil, err
	}
	approved, err := d.run(ctx, "capgate approvals approve "+id)
	if err != nil {
		return nil, err
	}
	if err := <-failed; err != nil {
		return nil, err
	}
	return []scene{
		{command: "capgate policy set weather get_forecast ask", output: rule},
		{agent: true, command: call, waits: true},
		{command: "capgate approvals list", output: list},
		{command: "capgate approvals show " + id, output: show},
		{command: "capgate approvals approve " + id, output: approved},
		{agent: true, output: answer},
	}, nil
}

// firstApproval waits for the approval that the call asks for.
func (d demo) firstApproval(ctx context.Context) (list, id string, err error) {
	err = poll(ctx, func() bool {
		list, err = d.run(ctx, "capgate approvals list")
		for line := range strings.Lines(list) {
			if strings.HasPrefix(line, "apr_") {
				id, _, _ = strings.Cut(line, " ")
			}
		}
		return err == nil && id != ""
	})
	return list, id, err
}

// run runs a line as in the documentation, at the demo's addresses.
func (d demo) run(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-euc", fmt.Sprintf("export CAPGATE_ADMIN=%s\ncapgate() { %s \"$@\"; }\n%s",
		d.admin, d.program, strings.ReplaceAll(line, "localhost:8080", d.public)))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", line, err, out.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func (d demo) ready(ctx context.Context) error {
	return poll(ctx, func() bool {
		response, err := http.Get("http://" + d.admin + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// poll calls f until it is true, for half a minute.
func poll(ctx context.Context, f func() bool) error {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for !f() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer l.Close()
	return l.Addr().String()
}
