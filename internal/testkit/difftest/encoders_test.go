package difftest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// spoken is a call for a client. Its message may be any that the proto permits.
type spoken struct {
	Dialect    string            `json:"dialect"`
	Method     string            `json:"method"`
	Metadata   map[string]string `json:"metadata"`
	Gzip       bool              `json:"gzip"`
	Tool       string            `json:"tool"`
	Args       []byte            `json:"args"`
	Config     []byte            `json:"config"`
	Session    string            `json:"session"`
	Capability string            `json:"capability"`
	Thread     string            `json:"thread"`
	Context    map[string]string `json:"context"` // of the legacy dialect
	Unknown    []byte            `json:"unknown"` // fields of a newer proto, for encoders that keep them
}

func (s *spoken) String() string {
	return fmt.Sprintf("%s %s, compressed %v: tool %q, arguments %.60q (%d bytes), configuration %q, session "+
		"%.60q, capability %q, thread %.60q, context %.200q, unknown %x",
		s.Dialect, s.Method, s.Gzip, s.Tool, s.Args, len(s.Args), s.Config, s.Session, s.Capability, s.Thread,
		fmt.Sprint(s.Context), s.Unknown)
}

// shapes returns the messages for every encoder.
func shapes(fleet, d string) (all []spoken) {
	long := strings.Repeat("länger ", 300)
	big := []byte(`{"text":"` + strings.Repeat("x", 100_000) + `"}`) // more than a stream's window
	unknown := slices.Concat(text(99, "new"), []byte{0x80, 0x7d, 1}, []byte{0x85, 0x7d, 1, 2, 3, 4},
		text(536870911, ""))
	for _, s := range []spoken{
		{Tool: "free"},
		{Tool: "free", Args: []byte(`{}`), Session: "s", Capability: fleet, Thread: "t"},
		{Tool: "free", Args: []byte(`{"text":"Grüße, 世界 🌍"}`), Session: "sitzung-ü-世界", Thread: "Faden 🧵"},
		{Tool: "free", Args: big, Config: []byte(`{"api_key":"x"}`)},
		{Tool: "free", Args: []byte(`{"a":[1,2.5e3,null,true,{"b":{}}]}`), Session: long[:500], Thread: long},
		{Tool: "run", Args: []byte(`{"command":"ls"}`), Config: []byte(`{"api_key":""}`), Capability: fleet},
		{Tool: "free", Args: []byte(`{}`), Unknown: unknown},
		{Tool: "free", Args: []byte(`{"text":"` + strings.Repeat("y", 127) + `"}`),
			Session: strings.Repeat("s", 128), Thread: "\x00\x7f"},
	} {
		s.Session = strings.ToValidUTF8(s.Session, "")
		s.Dialect, s.Context = d, map[string]string{}
		// none is null
		s.Args, s.Config, s.Unknown = append([]byte{}, s.Args...), append([]byte{}, s.Config...),
			append([]byte{}, s.Unknown...)
		if d == legacy {
			s.context()
		}
		for _, method := range []string{"Invoke", "StreamInvoke"} {
			for _, gzip := range []bool{false, true} {
				if d == legacy && method != "Invoke" {
					continue
				}
				s.Method, s.Gzip = method, gzip
				all = append(all, s)
			}
		}
	}
	return all
}

// context moves fields that the legacy dialect lacks to its context, and adds entries that only that dialect has.
func (s *spoken) context() {
	for key, value := range map[string]string{
		"session_id": s.Session, "capability_id": s.Capability, "thread_id": s.Thread, "config_json": string(s.Config),
		"": "no name", "leer": "", "größe": "世界",
	} {
		if value != "" || s.Session != "" {
			s.Context[key] = value
		}
	}
	if len(s.Config) == 0 {
		delete(s.Context, "config_json")
	}
	if s.Capability == "" {
		delete(s.Context, "capability_id")
	}
	s.Session, s.Capability, s.Thread, s.Config = s.Context["session_id"], s.Context["capability_id"],
		s.Context["thread_id"], []byte(s.Context["config_json"])
}

// caller returns the command of a client for the address of the gateway.
type caller struct {
	name  string
	start func(t *testing.T, addr string) *exec.Cmd
}

func callers(t *testing.T) []caller {
	t.Helper()
	set := descriptors(t)
	python := func(implementation string) func(*testing.T, string) *exec.Cmd {
		return func(t *testing.T, addr string) *exec.Cmd {
			t.Helper()
			cmd := exec.Command(program(t, "bin/venv/bin/python"),
				program(t, "internal/testkit/difftest/python/calls.py"), set, addr)
			cmd.Env = append(cmd.Environ(), "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="+implementation,
				"PYTHONDONTWRITEBYTECODE=1")
			return cmd
		}
	}
	node := func(encoder string) func(*testing.T, string) *exec.Cmd {
		return func(t *testing.T, addr string) *exec.Cmd {
			t.Helper()
			return exec.Command("node", program(t, "internal/testkit/difftest/node/calls.mjs"),
				program(t, "bin/node/node_modules"), set, addr, encoder, program(t, "proto"))
		}
	}
	return []caller{
		{"grpcio with upb", python("upb")},
		{"grpcio in pure Python", python("python")},
		{"grpc-js with protobuf.js 7", node("protobufjs")},
		{"grpc-js with protobuf.js 8", node("protobufjs8")},
		{"grpc-js with google-protobuf", node("google-protobuf")},
		{"connect-es", node("connect")},
		{"tonic", func(t *testing.T, addr string) *exec.Cmd {
			t.Helper()
			return exec.Command(program(t, "bin/tonic/difftest"), "call", addr)
		}},
		{"grpc-java", func(t *testing.T, addr string) *exec.Cmd {
			t.Helper()
			return exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp",
				program(t, "bin/java/classes")+":"+filepath.Join(program(t, "bin/java/jars"), "*"), "Calls", addr)
		}},
	}
}

// TestEncoders: the messages of all languages' encoders are accepted, and decoded as intended.
func TestEncoders(t *testing.T) {
	j := newJournal()
	w := &deployment{journal: j, backends: startGo(t, j)[:1]}
	w.gateway = startGateway(t, w.backends)
	w.speakGo(t, "grpc-go", w.grpcGo(t))
	w.speakGo(t, "connect-go", w.connectGo(t))
	for _, c := range callers(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var all []spoken
			for _, d := range []string{live, doc, legacy} {
				all = append(all, shapes("grpcgo-"+d, d)...)
			}
			for i := range all {
				all[i].Metadata = w.metadata(c.name, all[i].Dialect)
			}
			w.speak(t, c.start(t, w.gateway.addr), all)
		})
	}
}

// metadata returns the metadata of all calls.
func (w *deployment) metadata(name, dialect string) map[string]string {
	id := fmt.Sprintf("%s-%d", name, w.last.Add(1))
	return map[string]string{"x-capability-id": "grpcgo-" + dialect, "authorization": "Bearer " + w.gateway.ours,
		"x-request-id": id}
}

// speak runs a client and compares its calls with the backend's reports.
func (w *deployment) speak(t *testing.T, cmd *exec.Cmd, all []spoken) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	check.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	timer := time.AfterFunc(check.Patience, func() { _ = cmd.Process.Kill() }) // for each line
	defer timer.Stop()
	go func() {
		encoder := json.NewEncoder(stdin)
		for i := range all {
			_ = encoder.Encode(&all[i]) // the end of the client has more details
		}
		_ = stdin.Close()
	}()
	lines := bufio.NewReader(stdout)
	for i := range all {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		timer.Reset(check.Patience)
		var ended struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(line, &ended); err != nil || ended.Code != 0 {
			t.Errorf("%v: %v %.500s; ended %+v", &all[i], err, line, ended)
			continue
		}
		w.compare(t, &all[i])
	}
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

func (w *deployment) compare(t *testing.T, s *spoken) {
	t.Helper()
	runs := w.take(s.Metadata["x-request-id"])
	if len(runs) != 1 {
		t.Errorf("%v ran %d times", s, len(runs))
		return
	}
	r := runs[0]
	if r.Tool != s.Tool || !bytes.Equal(r.Args, s.Args) || !bytes.Equal(r.Config, s.Config) ||
		r.Session != s.Session || r.Capability != s.Capability || r.Thread != s.Thread {
		t.Errorf("%v was decoded as %.500s", s, r.String())
	}
}
