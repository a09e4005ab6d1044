package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// pythons may have the packages of the examples: tools/setup installs them from PyPI, otherwise from Debian.
var pythons = []string{filepath.Join(root, "bin", "venv", "bin", "python"), "python3", "/usr/bin/python3"}

// python returns a Python with gRPC. Without one the test is skipped, but not in CI.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range pythons {
		path, err := exec.LookPath(name)
		if err == nil && exec.CommandContext(t.Context(), path, "-c", "import grpc, grpc_tools.protoc").Run() == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no Python with grpcio and grpcio-tools: tools/setup installs it")
	}
	t.Skip("no Python with grpcio and grpcio-tools: make setup installs it where it can")
	return ""
}

// startExample runs a capability in Python as its README describes.
func startExample(t *testing.T, dir string) (p *program, addr string) {
	t.Helper()
	py, stubs := python(t), t.TempDir()
	protoc := exec.CommandContext(t.Context(), py, "-m", "grpc_tools.protoc", "-I"+dir, "--python_out="+stubs,
		"--grpc_python_out="+stubs, "capability.proto")
	if out, err := protoc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(py, filepath.Join(dir, "server.py"), "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+stubs, "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p = launch(t, cmd)
	said := regexp.MustCompile(`port (\d+)`).FindStringSubmatch(p.stdout.wait(t, p, "\n"))
	if said == nil {
		t.Fatalf("it says %q", p.stdout.String())
	}
	return p, "127.0.0.1:" + said[1]
}

// The examples in Python conform to the protocol, and callers of any dialect use them through a gateway.
func TestPythonExamples(t *testing.T) {
	t.Parallel()
	for dir, test := range map[string]struct {
		dialect, id string
		probe       string // output of capgate probe
		tool, args  string
		want        string // in the result
		bad, words  string // invalid arguments, and the tool's error
		skipped     string // of the rules
	}{
		"python-live": {
			"live", "words", "write_report  ask", "count_words", `{"text":"ja nein ja"}`, `{"word":"ja","count":2}`,
			`{"text":3}`, "text must be a string", "2 not tested",
		},
		"python-legacy": {
			"legacy", "weather-lookup", "weather_lookup  allow", "weather_lookup", `{"location":"Berlin"}`,
			`"temperature":22`,
			`{"location":"Berln"}`, "unknown location 'Berln'", "3 not tested",
		},
	} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			source := filepath.Join(root, "examples", dir)
			example, addr := startExample(t, source)
			if exit, out, errs := capgateRun(t, "probe", addr, "--manifest", source, "--timeout",
				"30s"); exit != 0 || !strings.Contains(out, test.probe) || !strings.Contains(out, test.dialect) {
				t.Errorf("probe: exit status %d\n%s%s", exit, out, errs)
			}
			if exit, out, errs := capgateRun(t, "conform", addr, "--manifest", source, "--call-tools", "--timeout",
				"60s"); exit != 0 || !strings.Contains(out, " passed, 0 failed, "+test.skipped) {
				t.Errorf("conform: exit status %d\n%s%s", exit, out, errs)
			}

			file := configFile(t, addr, "")
			data, err := os.ReadFile(file)
			check.Must(t, err)
			text := strings.Replace(string(data), "capability: caps", "dialect: "+test.dialect+", capability: "+test.id,
				1)
			check.Must(t, os.WriteFile(file, []byte(text), 0o600))
			gateway, public, _ := serve(t, nil, "--config", file)
			exit, out, errs := invokeWith(t, "", test.id, test.tool, test.args, "--addr", public)
			if exit != 0 || !strings.Contains(squeezed(out), test.want) {
				t.Errorf("invoke: exit status %d, %s%s", exit, out, errs)
			}
			if exit, _, errs = invokeWith(t, "", test.id, test.tool, test.bad, "--addr",
				public); exit != exitRefused || !strings.Contains(errs, test.words) {
				t.Errorf("invoke: exit status %d, %s", exit, errs)
			}
			if exit, out, errs = invokeWith(t, "", test.id, test.tool, test.args, "--addr", public,
				"--stream"); exit != 0 || !strings.Contains(squeezed(out), test.want) {
				t.Errorf("invoke --stream: exit status %d, %s%s", exit, out, errs)
			}
			status, body := post(t, "http://"+public+"/v1/capabilities/"+test.id+"/invoke",
				`{"tool_name":"`+test.tool+`","args":`+test.args+`}`)
			if status != http.StatusOK || !strings.Contains(squeezed(body), test.want) {
				t.Errorf("REST: %d %s", status, body)
			}
			gateway.stop(t)
			example.stop(t)
		})
	}
}

func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: check.Patience}
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	check.Must(t, err)
	defer resp.Body.Close()
	var text strings.Builder
	check.Must(t, resp.Write(&text))
	return resp.StatusCode, text.String()
}

// The live example has the same proto as this repository.
func TestPythonExampleHasTheProto(t *testing.T) {
	t.Parallel()
	if read(t, "examples/python-live/capability.proto") != read(t, "proto/selu/capability/v1/capability.proto") {
		t.Error("examples/python-live/capability.proto is not proto/selu/capability/v1/capability.proto: copy it")
	}
}

// conform reports the same to people and programs.
func TestConform(t *testing.T) {
	t.Parallel()
	addr := startWeather(t)
	line := []string{"conform", addr, "--tool", "get_current_weather", "--args", `{"location":"Berlin"}`}
	// The test's server accepts gRPC's own 4 MiB and no more.
	exit, out, errs := capgateRun(t, line...)
	if exit != 0 || errs != "" || !strings.Contains(out, "\nnote        doc     large-message ") ||
		!strings.Contains(out, "Selu's orchestrator, largest message (16 MiB)]\n      a request of 16384 KiB ends "+
			"with ") || !strings.Contains(out, " passed, 0 failed, 4 not tested, 1 with a note\n") {
		t.Errorf("exit status %d\n%s%s", exit, out, errs)
	}
	line = append(line, "--max-message", "16MiB", "--bad-args", `{"location":3}`)
	exit, out, errs = capgateRun(t, line...)
	if exit != exitRefused || errs != "" || !strings.Contains(out, "\nfail        doc     large-message ") ||
		!strings.Contains(out, " passed, 1 failed, 3 not tested\n") {
		t.Errorf("exit status %d\n%s%s", exit, out, errs)
	}
	exit, out, errs = capgateRun(t, append(line, "-o", "json", "--dialect", "doc")...)
	if exit != exitRefused || errs != "" || !json.Valid([]byte(out)) ||
		!strings.Contains(squeezed(out), `{"verdict":"fail","rule":"large-message","dialect":"doc","says":"`) {
		t.Errorf("exit status %d\n%s%s", exit, out, errs)
	}
	// The manifest names a harmless call.
	if exit, out, _ = capgateRun(t, "conform", addr, "--manifest",
		filepath.Join(root, "examples", "weather"), "--call-tools"); exit != 0 ||
		!strings.Contains(out, "\npass        doc     stream-result ") {
		t.Errorf("exit status %d\n%s", exit, out)
	}
}

func TestConformCommandLines(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"HOST:PORT is missing":              {},
		`"spanish" is not doc`:              {"a:1", "--dialect", "spanish"},
		`"auto" is not doc`:                 {"a:1", "--dialect", "auto"},
		"--args requires --tool":            {"a:1", "--args", "{}"},
		"--slow-args requires --slow-tool":  {"a:1", "--slow-args", "{}"},
		"--args is not a JSON object":       {"a:1", "--tool", "t", "--args", "[]"},
		"--slow-args is not a JSON object":  {"a:1", "--slow-tool", "t", "--slow-args", "3"},
		"--wait and --timeout must be more": {"a:1", "--wait", "0"},
		`"16" is not a size of 1KiB`:        {"a:1", "--max-message", "16"},
		"exclude each other":                {"a:1", "--tool", "t", "--call-tools"},
		"unknown flag --no; the flags are":  {"a:1", "--no"},
	} {
		if exit, out, errs := capgateRun(t, append([]string{"conform"}, args...)...); exit != exitUsage ||
			out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: exit status %d, %q, %q", args, exit, out, errs)
		}
	}
	if exit, out, _ := capgateRun(t, "conform", "-h"); exit != 0 || !strings.Contains(out, "Exit status") {
		t.Errorf("exit status %d, %q", exit, out)
	}
}
