package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// asCommand makes this test binary act as the command that its value names.
const asCommand = "TEST_AS_COMMAND"

// noRaceWait avoids the second that programs under the race detector wait at their end.
const noRaceWait = "GORACE=atexit_sleep_ms=0"

// TestMain runs the real program when the test binary starts itself.
func TestMain(m *testing.M) {
	issuertest.Main()
	switch name := os.Getenv(asCommand); name {
	case "":
		os.Exit(m.Run())
	case "capgate":
		os.Exit(Main())
	case "backend":
		os.Exit(backend(os.Args[1]))
	case "suite client":
		os.Exit(suiteClient(os.Args[1]))
	default: // by the name of a link to it: a stand-in for a program that may be missing
		os.Exit(standIn(filepath.Base(os.Args[0]), os.Args[1:]))
	}
}

// program is capgate, or a backend, in a process of its own.
type program struct {
	cmd            *exec.Cmd
	stdout, stderr *capture
	exited         chan struct{}
}

// selfCommand prepares this test binary as a command. Variables of the tests' environment that capgate would
// read are removed; env is added.
func selfCommand(t *testing.T, name string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	cmd := exec.Command(self, args...)
	// it ends with the tests, however they end
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// Tests of the admin API's authentication set CAPGATE_ADMIN_INSECURE to empty.
	cmd.Env = slices.Concat(cleanEnv(), []string{asCommand + "=" + name, noRaceWait, "CAPGATE_ADMIN_INSECURE=1"}, env)
	return cmd
}

func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CAPGATE_") })
}

// start runs capgate until it or the test ends.
func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return launch(t, selfCommand(t, "capgate", env, args...))
}

func launch(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, stdout: newCapture(), stderr: newCapture(), exited: make(chan struct{})}
	if p.cmd.Stderr = p.stderr; p.cmd.Stdout == nil {
		p.cmd.Stdout = p.stdout
	}
	check.Must(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // ProcessState has the details
		close(p.exited)
		_, _ = p.stdout.Write(nil) // wakes goroutines that wait for more
		_, _ = p.stderr.Write(nil)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		check.Received(t, p.exited, "the end of the process")
		// The exit status of a killed program is meaningless.
		if strings.Contains(p.stderr.String(), "WARNING: DATA RACE") {
			t.Errorf("%q has a data race", cmd.Args[1:])
		}
		if t.Failed() {
			t.Logf("%q wrote:\n%s\n%s", cmd.Args[1:], withoutCalls(p.stdout.String()), withoutCalls(p.stderr.String()))
		}
	})
	return p
}

// withoutCalls returns a program's output without the lines of successful calls.
func withoutCalls(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, `"outcome":"success"`) && !strings.HasPrefix(line, deliveredLine) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// runProgram runs capgate to its end.
func runProgram(t *testing.T, env []string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	p := start(t, env, args...)
	return p.wait(t), p.stdout.String(), p.stderr.String()
}

func (p *program) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	check.Must(t, p.cmd.Process.Signal(s))
}

// wait waits for the end and returns the exit status; -1 is that of a signal.
func (p *program) wait(t *testing.T) (exit int) {
	t.Helper()
	check.Received(t, p.exited, "the end of capgate")
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the program as a supervisor does.
func (p *program) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if exit := p.wait(t); exit != 0 {
		t.Errorf("exit status %d after SIGTERM", exit)
	}
}

// capture holds a program's output.
type capture struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{} // closed and replaced by every Write
}

func newCapture() *capture { return &capture{grew: make(chan struct{})} }

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.grew)
	c.grew = make(chan struct{})
	return c.text.Write(p)
}

func (c *capture) String() string {
	text, _ := c.read()
	return text
}

func (c *capture) read() (string, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String(), c.grew
}

// wait waits for text in p's output, and returns all output so far.
func (c *capture) wait(t *testing.T, p *program, part string) (text string) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("%q", part), func() (bool, string, <-chan struct{}) {
		ended := p.hasExited() // before the check, which then sees everything
		all, grew := c.read()
		if text = all; strings.Contains(text, part) {
			return true, "", nil
		}
		if ended {
			t.Fatalf("%q ended without %q", p.cmd.Args[1:], part)
		}
		return false, "what it wrote is below", grew
	})
	return text
}

// hasExited reports whether the program has ended and written everything.
func (p *program) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// taken returns an address that another program uses until the test ends.
func taken(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   []string
		exit   int
		stdout bool
		want   string
	}{
		{nil, 2, false, "Usage: capgate COMMAND"},
		{[]string{"help"}, 0, true, "serve"},
		{[]string{"--help"}, 0, true, "capgate COMMAND -h"},
		{[]string{"sevre"}, 2, false, `unknown command "sevre"; did you mean "serve"`},
		{[]string{"serve", "-h"}, 0, true, "CAPGATE_LISTEN"},
		{[]string{"serve", "--nope"}, 2, false, "Try: capgate serve -h"},
		{[]string{"serve", "extra", "more"}, 2, false, `unexpected argument "more"`},
		{[]string{"demo", "-h"}, 0, true, "--listen"},
		{[]string{"demo", "extra"}, 2, false, "Try: capgate demo -h"},
		{[]string{"version", "extra"}, 2, false, `unexpected argument "extra"`},
		{[]string{"version"}, 0, true, "commit "},
		{[]string{"--version"}, 0, true, "commit "},
	} {
		exit, stdout, stderr := runProgram(t, nil, test.args...)
		output, silent := stderr, stdout
		if test.stdout {
			output, silent = stdout, stderr
		}
		if exit != test.exit || !strings.Contains(output, test.want) || silent != "" {
			t.Errorf("%q: exit status %d, want %d; it says %q, want %q; on the other output %q, want nothing",
				test.args, exit, test.exit, output, test.want, silent)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	_, stdout, _ := runProgram(t, nil, "version")
	if !regexp.MustCompile(`^capgate .+\ncommit .+\ndate .+\ngo1\..+\n$`).MatchString(stdout) {
		t.Errorf("%q, want lines with capgate, commit, date and the version of Go", stdout)
	}
}
