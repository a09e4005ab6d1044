// Package process runs programs that end with a test.
package process

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TB is the needed part of testing.TB.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Failed() bool
}

// Process is a program that ends with the test, and with the test's process.
type Process struct {
	exited chan struct{}
	cmd    *exec.Cmd

	mu   sync.Mutex
	text bytes.Buffer // standard output and error
}

// Start starts a program. A test that fails logs the last output.
func Start(t TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	name := filepath.Base(cmd.Path)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v (tools/setup installs it)", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // killed; otherwise the wait for a response notices it
	}()
	check.Cleanup(t, func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last output of %s:\n%s", name, p.Output())
		}
	})
	return p
}

// Write implements io.Writer.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// Output returns the last output.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.text.Bytes()
	return string(text[max(0, len(text)-4000):])
}

// Exited returns a channel that is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// HasExited reports whether the program has ended.
func (p *Process) HasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the program at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// Signal sends a signal to the program.
func (p *Process) Signal(t TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}
