package difftest

import (
	"bufio"
	"encoding/json"
	"flag"
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

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// record is a call in the audit log.
type record struct {
	Type       string `json:"type"`
	Method     string `json:"method"`
	Path       string `json:"path"`
	Capability string `json:"capability"`
	Tool       string `json:"tool"`
	Request    string `json:"request_id"`
	Decision   string `json:"decision"`
	Code       string `json:"code"`
	Reason     string `json:"reason"`
}

// gateway is the program, in its own process.
type gateway struct {
	addr   string
	ours   string // API key of the calling tenant
	theirs string // API key of another tenant

	mu      sync.Mutex
	records map[string]record // by request
	grown   chan struct{}     // closed, and replaced, by every record
	said    []byte            // end of the log, without the lines of calls
}

// manifest is the manifest of the fleets. It allows all tools but one.
const manifest = `id: %s
image: example.com/%[1]s:1
tool_source: manifest
credentials:
  - {name: api_key, scope: system, required: false, description: a key}
tools:
  - {name: free, description: takes anything, recommended_policy: allow, input_schema: {type: object}}
  - {name: blocked, description: must not run, recommended_policy: block, input_schema: {type: object}}
  - name: run
    description: runs a command
    recommended_policy: allow
    input_schema:
      type: object
      properties:
        command: {enum: [ls]}
        attachments: {type: array, items: {type: object, properties: {capability_artifact_id: {type: string}}}}
      additionalProperties: false
`

// capgate is the path of the program.
var capgate string

// TestMain builds the program like make build, so that compiled packages are reused.
func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "difftest")
	if err == nil {
		capgate = filepath.Join(dir, "capgate")
		cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", capgate,
			"./cmd/capgate")
		cmd.Dir = root
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// config writes the configuration. Each backend has three fleets, one for each dialect. Two of them allow unknown
// methods. One checks neither arguments nor configuration, which is the default.
func config(t testing.TB, backends []*backend, keys ...[2]string) string {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, timeout: 5s}\noverload: " +
		"off\naudit: {to: stdout}\n" +
		"public_url: 'http://127.0.0.1'\ntenants:\n")
	for i, name := range []string{"ours", "theirs"} {
		fmt.Fprintf(&b, "  - {id: %s, capabilities: ['*'], keys: [{id: %s, hash: '%s', scopes: [invoke, read]}]}\n",
			name, keys[i][0], tenant.HashOf(keys[i][1], nil))
	}
	b.WriteString("fleets:\n")
	for _, backend := range backends {
		for _, d := range []string{live, doc, legacy} {
			id := backend.name + "-" + d
			file := filepath.Join(dir, id+".yaml")
			check.Must(t, os.WriteFile(file, fmt.Appendf(nil, manifest, id), 0o600))
			fmt.Fprintf(&b, "  - {capability: %s, dialect: %s, manifest: %s, policy: %s, validate_arguments: %v, "+
				"enforce_credentials: %v, methods: [%s],\n"+
				"     health: {interval: 20s, timeout: 20s, wait_for_ready: 30s},\n"+ // for a busy machine
				"     backends: ['%s', {addr: '%s', session: mine, tenant: ours}]}\n", id, d, file,
				map[string]string{live: "block", doc: "allow", legacy: "allow"}[d], d != doc, d != doc,
				backend.methods, backend.addr(0), backend.addr(1))
		}
	}
	file := filepath.Join(dir, "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

// startGateway starts the program in front of the backends.
func startGateway(t testing.TB, backends []*backend) *gateway {
	t.Helper()
	var keys [][2]string
	for range 2 {
		id, secret := tenant.NewCredential()
		keys = append(keys, [2]string{id, secret})
	}
	g := &gateway{
		ours: tenant.Credential(keys[0][0], keys[0][1]), theirs: tenant.Credential(keys[1][0], keys[1][1]),
		records: map[string]record{}, grown: make(chan struct{}),
	}
	cmd := exec.Command(capgate, "serve", "--config", config(t, backends, keys...))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	check.Must(t, err)
	stderr, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	listens, ended := make(chan string, 1), make(chan struct{})
	go g.readLog(stderr, listens)
	check.Cleanup(t, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.Failed() {
			t.Logf("capgate wrote:\n%.8000s", g.said)
		}
	})
	go g.readAudit(stdout, ended)
	check.Cleanup(t, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(check.Patience, func() { _ = cmd.Process.Kill() })
		check.Received(t, ended, "the gateway to stop")
		if err := cmd.Wait(); err != nil {
			t.Errorf("the gateway ends with %v", err)
		}
		timer.Stop()
	})
	if g.addr = check.Received(t, listens, "the gateway to serve"); g.addr == "" {
		t.Fatal("the gateway does not start")
	}
	return g
}

// readLog reads the log to its end, and the gateway's addresses.
func (g *gateway) readLog(stderr io.Reader, listens chan<- string) {
	lines := bufio.NewReader(stderr)
	defer close(listens)
	for {
		line, err := lines.ReadBytes('\n')
		var said struct{ Msg, Level, Listen string }
		if json.Unmarshal(line, &said) == nil && said.Msg == "serving" {
			listens <- said.Listen
		} else if len(line) > 0 && said.Msg != "call" && said.Level != "INFO" {
			g.mu.Lock()
			if len(g.said) < 1<<16 {
				g.said = append(g.said, line...)
			}
			g.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (g *gateway) readAudit(stdout io.Reader, ended chan<- struct{}) {
	defer close(ended)
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r record
		if json.Unmarshal(line, &r) != nil || r.Type != "call" || r.Request == "" {
			continue
		}
		g.mu.Lock()
		g.records[r.Request] = r
		close(g.grown)
		g.grown = make(chan struct{})
		g.mu.Unlock()
	}
}

// record waits for the record of a call and removes it. It returns nil if there is none.
func (g *gateway) record(id string, wait time.Duration) *record {
	timeout := time.After(wait)
	for {
		g.mu.Lock()
		r, there := g.records[id]
		grown := g.grown
		delete(g.records, id)
		g.mu.Unlock()
		if there {
			return &r
		}
		select {
		case <-grown:
		case <-timeout:
			return nil
		}
	}
}
