package deploy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/issuertest"
)

// capgate is the path of the program, built like the Makefile's.
var capgate string

func TestMain(m *testing.M) {
	issuertest.Main()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	_ = os.Setenv("CAPGATE_ADMIN_INSECURE", "1") // authentication of operators is not tested here
	dir, err := os.MkdirTemp("", "capgate")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	capgate = filepath.Join(dir, "capgate")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", capgate,
		"../cmd/capgate")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build capgate: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// process is a program that ends with the test, and with the process of the tests.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when the program has ended

	mu   sync.Mutex
	text bytes.Buffer  // output of the program
	grew chan struct{} // closed, and replaced, by every Write
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return launch(t, cmd)
}

// startIn is start in the given root, as a user UID:GID, with only env as its environment.
func startIn(t *testing.T, root, user string, env []string, name string, args ...string) *process {
	t.Helper()
	credential := &syscall.Credential{}
	if _, err := fmt.Sscanf(user, "%d:%d", &credential.Uid, &credential.Gid); err != nil {
		t.Fatalf("user %q: %v", user, err)
	}
	for dir := root; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		check.Must(t, os.Chmod(dir, 0o755)) // a directory of the tests is private by default
	}
	cmd := &exec.Cmd{Path: name, Args: append([]string{name}, args...), Env: append([]string{}, env...), Dir: "/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: credential}
	return launch(t, cmd)
}

func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	name := cmd.Path
	p := &process{name: filepath.Base(name), cmd: cmd, exited: make(chan struct{}), grew: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v (tools/setup installs it)", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // killed; otherwise the waits for its output notice it
		close(p.exited)
		_, _ = p.Write(nil) // wakes the waits for more output
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		check.Received(t, p.exited, "the end of the process")
		if t.Failed() {
			t.Logf("last output of %s:\n%s", p.name, p.tail())
		}
	})
	return p
}

// Write implements io.Writer.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.grew)
	p.grew = make(chan struct{})
	return p.text.Write(b)
}

func (p *process) read() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String(), p.grew
}

// tail returns the end of the output without the lines of calls.
func (p *process) tail() string {
	text, _ := p.read()
	lines := slices.DeleteFunc(strings.Split(text, "\n"),
		func(line string) bool { return strings.Contains(line, `"msg":"call"`) })
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// wait waits until the program writes a text, and returns the output so far.
func (p *process) wait(t *testing.T, part string) (text string) {
	t.Helper()
	check.UntilEvent(t, fmt.Sprintf("%q of %s", part, p.name), func() (bool, string, <-chan struct{}) {
		ended := p.hasExited() // read first, so that the following check sees all output
		all, grew := p.read()
		if text = all; strings.Contains(text, part) {
			return true, text, nil
		}
		if ended {
			t.Fatalf("%s ended without %q", p.name, part)
		}
		return false, "what it wrote is below", grew
	})
	return text
}

// hasExited reports whether the program has ended and its output is complete.
func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// command runs a program, which must succeed, and returns its output.
func command(t *testing.T, name string, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}
