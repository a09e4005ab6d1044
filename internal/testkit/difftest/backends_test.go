package difftest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/testkit/check"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// root is the root of the repository.
const root = "../../.."

// run is a backend's report of a call, as its own decoders read it.
type run struct {
	Backend    string   `json:"-"`
	Case       string   `json:"case"`
	Reserved   bool     `json:"reserved"` // from the backend that has only the session "mine"
	Method     string   `json:"method"`
	Tool       string   `json:"tool"`
	Args       []byte   `json:"args"`
	Config     []byte   `json:"config"`
	Session    string   `json:"session"`
	Capability string   `json:"capability"`
	Thread     string   `json:"thread"`
	Command    *string  `json:"command"`   // in the arguments
	Artifacts  []string `json:"artifacts"` // in the arguments, or downloaded
	Names      []string `json:"names"`     // in the configuration
}

func (r *run) String() string {
	command := "-"
	if r.Command != nil {
		command = *r.Command
	}
	return fmt.Sprintf("%s ran %s: tool %q, arguments %q (command %q, artifacts %q), configuration %q, session "+
		"%q, capability %q, reserved %v",
		r.Backend, r.Method, r.Tool, r.Args, command, r.Artifacts, r.Config, r.Session, r.Capability, r.Reserved)
}

// from reports whether a fleet has the backend that ran the call.
func (r *run) from(fleet string) bool { return strings.HasPrefix(fleet, r.Backend+"-") }

// backend is a capability that reports its calls.
type backend struct {
	name    string
	ports   [2]int              // of all sessions, and of the session "mine"
	runtime string              // its decoder, as it reports it
	methods string              // further methods of its fleets, as in the configuration
	conns   [2]*grpc.ClientConn // direct connections of the test
}

func (b *backend) addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", b.ports[i]) }

// journal collects the reports of all backends.
type journal struct {
	mu    sync.Mutex
	runs  map[string][]run // by case
	grown chan struct{}    // closed, and replaced, by every entry
}

func newJournal() *journal { return &journal{runs: map[string][]run{}, grown: make(chan struct{})} }

func (j *journal) add(r run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs[r.Case] = append(j.runs[r.Case], r)
	close(j.grown)
	j.grown = make(chan struct{})
}

// take removes the reports of a case.
func (j *journal) take(id string) []run {
	j.mu.Lock()
	defer j.mu.Unlock()
	runs := j.runs[id]
	delete(j.runs, id)
	return runs
}

// left returns the cases whose reports have not been taken.
func (j *journal) left() (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id := range j.runs {
		ids = append(ids, id)
	}
	return ids
}

// wait waits for a report of a case.
func (j *journal) wait(t testing.TB, id string) {
	t.Helper()
	check.UntilEvent(t, "a backend's report of case "+id, func() (bool, int, <-chan struct{}) {
		j.mu.Lock()
		defer j.mu.Unlock()
		return len(j.runs[id]) > 0, len(j.runs), j.grown
	})
}

// start runs a backend as a process. The process ends when its standard input is closed.
func start(t testing.TB, j *journal, name string, cmd *exec.Cmd) *backend {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	check.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	check.Must(t, err)
	errors, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	check.Must(t, err)
	cmd.Stderr = errors
	if err := cmd.Start(); err != nil {
		t.Fatalf("the backend %s: %v. Run `make test`, which installs what it needs", name, err)
	}
	ready, ended := make(chan []byte, 1), make(chan struct{})
	go follow(j, name, stdout, ready, ended)
	check.Cleanup(t, func() {
		_ = stdin.Close()
		timer := time.AfterFunc(check.Patience, func() { _ = cmd.Process.Kill() })
		check.Received(t, ended, "the backend to stop")
		_ = cmd.Wait()
		timer.Stop()
		_ = errors.Close()
		if said, _ := os.ReadFile(errors.Name()); t.Failed() && len(said) > 0 {
			t.Logf("%s wrote:\n%.8000s", name, said)
		}
	})
	b := &backend{name: name}
	line := check.Received(t, ready, "the backend "+name+" to be ready")
	var said struct {
		Ports   [2]int `json:"ports"`
		Runtime string `json:"runtime"`
	}
	if err := json.Unmarshal(line, &said); err != nil {
		text, _ := os.ReadFile(errors.Name())
		t.Fatalf("the backend %s does not start: it says %q\n%s\nRun `make test`, which installs what it needs",
			name, line, text)
	}
	b.ports, b.runtime = said.Ports, said.Runtime
	return b
}

// follow reads a backend's reports. The first line has its addresses.
func follow(j *journal, name string, stdout io.Reader, ready chan<- []byte, ended chan<- struct{}) {
	defer close(ended)
	lines := bufio.NewReader(stdout)
	for first := true; ; first = false {
		line, err := lines.ReadBytes('\n')
		if first {
			ready <- line
		}
		if err != nil {
			return
		}
		if first {
			continue
		}
		r := run{Backend: name}
		if err := json.Unmarshal(line, &r); err != nil {
			r.Case, r.Method = "unreadable", string(line)
		}
		j.add(r)
	}
}

// descriptors writes a FileDescriptorSet of proto/selu, and returns its path.
func descriptors(t testing.TB) string {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	set.File = append(set.File, protodesc.ToFileDescriptorProto(livepb.File_selu_capability_v1_capability_proto),
		protodesc.ToFileDescriptorProto(docpb.File_selu_capability_capability_proto),
		protodesc.ToFileDescriptorProto(legacypb.File_selu_legacy_legacy_proto),
		protodesc.ToFileDescriptorProto(legacypb.File_selu_legacy_service_proto))
	data, err := proto.Marshal(&set)
	check.Must(t, err)
	file := filepath.Join(t.TempDir(), "selu.binpb")
	check.Must(t, os.WriteFile(file, data, 0o600))
	return file
}

// program returns the absolute path of a program in the repository.
func program(t testing.TB, parts ...string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(append([]string{root}, parts...)...))
	check.Must(t, err)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v: run `make test`, which installs it", err)
	}
	return file
}

// startBackends starts one backend of each kind.
func startBackends(t testing.TB, j *journal) []*backend {
	t.Helper()
	set := descriptors(t)
	python := func(name, implementation string) *backend {
		cmd := exec.Command(program(t, "bin/venv/bin/python"),
			program(t, "internal/testkit/difftest/python/backend.py"), set)
		cmd.Env = append(cmd.Environ(), "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="+implementation,
			"PYTHONDONTWRITEBYTECODE=1")
		b := start(t, j, name, cmd)
		if b.runtime != implementation {
			t.Fatalf("%s decodes with %q, not %q", name, b.runtime, implementation)
		}
		return b
	}
	node := func(name, version string) *backend {
		b := start(t, j, name, exec.Command("node", program(t, "internal/testkit/difftest/node/backend.mjs"),
			program(t, "bin/node/node_modules"), program(t, "proto"), version))
		if !strings.HasPrefix(b.runtime, version+".") {
			t.Fatalf("%s has protobuf.js %s, not %s", name, b.runtime, version)
		}
		return b
	}
	backends := []*backend{python("upb", "upb"), python("pure", "python"), node("pbjs7", "7"), node("pbjs8", "8")}
	backends = append(backends, start(t, j, "tonic", exec.Command(program(t, "bin/tonic/difftest"), "serve")))
	return append(backends, startGo(t, j)...)
}
