package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestInit: the written configuration is valid and works, and is not replaced unless --force is given.
func TestInit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	exit, out, errs := inProcess(t, "init", file)
	if exit != 0 || errs != "" || !strings.Contains(out, "capgate serve "+file) {
		t.Fatalf("%d %s%s", exit, out, errs)
	}
	if exit, out, errs := inProcess(t, "check", file); exit != 0 || out != "ok: 1 fleet, 1 backend\n" || errs != "" {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	text, err := os.ReadFile(file)
	check.Must(t, err)
	if !strings.HasPrefix(string(text), "# yaml-language-server: $schema="+config.SchemaURL+"\n") {
		t.Errorf("got %s", text)
	}

	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc).Addr
	mine := strings.NewReplacer("127.0.0.1:50051", backend, ":8080", "127.0.0.1:0", "127.0.0.1:8081", "127.0.0.1:0").
		Replace(string(text))
	check.Must(t, os.WriteFile(file, []byte(mine), 0o600))
	_, public, _ := serve(t, nil, file)
	if _, err := dial(t, public).Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: "weather",
		ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")}); err != nil {
		t.Error(err)
	}

	if exit, _, errs := inProcess(t, "init", file); exit != exitRefused ||
		!strings.Contains(errs, "--force overwrites") {
		t.Errorf("got %d %s", exit, errs)
	}
	if again, _ := os.ReadFile(file); string(again) != mine {
		t.Errorf("overwritten: %s", again)
	}
	if exit, _, errs := inProcess(t, "init", file, "--force"); exit != 0 {
		t.Errorf("got %d %s", exit, errs)
	}
	if again, _ := os.ReadFile(file); string(again) != string(text) {
		t.Errorf("got %s", again)
	}
	if exit, out, _ := inProcess(t, "init", "-"); exit != 0 || out != string(text) {
		t.Errorf("got %d %s", exit, out)
	}
}

// TestCheckOfStandardInput: either kind is recognized.
func TestCheckOfStandardInput(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"fleets: [{capability: a, backends: ['b:1'], policy: ask}]\n": "ok: 1 fleet, 1 backend\n",
		"id: a\nimage: i\n":           "ok: 1 manifest, 0 tools\n",
		"fleets: [{capabilty: a}]\n":  `standard input:1: fleets[0].capabilty: unknown field; did you mean`,
		"id: a\nimage: i\ntols: []\n": "standard input:3: tols: ",
	} {
		var out strings.Builder
		run(t.Context(), []string{"check", "-"}, stdio{strings.NewReader(text), &out, &out})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s%s, want %s", text, out.String(), want)
		}
	}
}

// TestWithoutConfiguration: serve and check say what to do if no file is named and capgate.yaml does not exist;
// a manifest is not a configuration.
func TestWithoutConfiguration(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"serve", "check"} { // the tests run in a directory without a capgate.yaml
		if exit, _, errs := runProgram(t, nil, command); exit != exitUsage ||
			!strings.Contains(errs, "there is no configuration capgate.yaml here: capgate init writes one") {
			t.Errorf("%s: %d %s", command, exit, errs)
		}
	}
	if exit, _, errs := runProgram(t, nil, "serve", "../../examples/weather/manifest.yaml"); exit != exitUsage ||
		!strings.Contains(errs, "is the manifest of a capability, and not a configuration") {
		t.Errorf("got %d %s", exit, errs)
	}
}

// TestCheckAsData: problems are data with their places.
func TestCheckAsData(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	exit := run(t.Context(), []string{"check", "-", "-o", "json"},
		stdio{strings.NewReader("listen: ':1'\nfleets: [{capabilty: a}]\n"), &out, &errs})
	var result checkResult
	if err := json.Unmarshal([]byte(out.String()), &result); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if exit != 1 || result.OK || len(result.Problems) == 0 {
		t.Fatalf("exit status %d, %s; result %+v", exit, out.String(), result)
	}
	p := result.Problems[0]
	if p.File != "standard input" || p.Line != 2 || p.Field != "fleets[0].capabilty" ||
		!strings.Contains(p.Problem, "did you mean") || !strings.Contains(errs.String(), p.Problem) {
		t.Errorf("%+v, and for people:\n%s", p, errs.String())
	}
	out.Reset()
	exit = run(t.Context(), []string{"check", "-", "-o", "yaml"},
		stdio{strings.NewReader("id: a\nimage: i\n"), &out, &errs})
	if exit != 0 || out.String() != "ok: true\nchecked:\n  - 1 manifest, 0 tools\nproblems: []\n" {
		t.Errorf("exit status %d:\n%s", exit, out.String())
	}
}
