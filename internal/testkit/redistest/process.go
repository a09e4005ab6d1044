package redistest

import (
	"bytes"
	"context"
	"os/exec"
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
	Context() context.Context
}

// process is a program that ends with the test, and with the test's process.
type process struct {
	cmd    *exec.Cmd
	output output
	exited chan struct{} // closed when it has ended
}

// run starts a program in a directory.
func run(t TB, dir, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), exited: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v (tools/setup installs it)", name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // killed, or detected by the wait for a response
	}()
	check.Cleanup(t, func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, p.output.String())
		}
	})
	return p
}

// kill ends the program at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

func (p *process) signal(t TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// output is the output of a program.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
