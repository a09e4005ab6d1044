package cli

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/mcpclients"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/browsertest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// connected is the report of the scenario connect about the page /docs.
type connected struct {
	Address  string // that the root redirects to
	Tools    []string
	Programs map[string]string // by language
	Entries  map[string]string // of MCP clients
	Commands map[string]string // that write the entries
	Result   string
	Off      bool     // arguments that are not JSON are not sent
	Approved bool     // a call was repeated with its approval
	Reasons  []string // of the last calls
	Said     []string // about wrong keys
	Wrong    []string // problems of accessibility and layout
}

// TestDocsInABrowser: the page shows the caller's tools, programs and entries that work as they stand, and the last
// calls, without a key and with one.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t, root)
	shots, err := filepath.Abs(os.Getenv("TEST_SCREENSHOTS")) // for people
	check.Must(t, err)
	if os.Getenv("TEST_SCREENSHOTS") == "" {
		shots = ""
	}
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		_, greeting := startDemo(t)
		public, admin := addresses(greeting)
		connects(t, b, public, admin, "", shots)
	})
	t.Run("keyed", func(t *testing.T) {
		t.Parallel()
		backends, stop, err := startReplicas()
		check.Must(t, err)
		t.Cleanup(stop)
		id, secret := tenant.NewCredential()
		manifest, err := filepath.Abs(filepath.Join(root, "examples", "weather", "manifest.yaml"))
		check.Must(t, err)
		_, public, admin := serve(t, nil, "--config", writeConfig(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
overload: {max_delay: 10s}
policies: {}
tenants: [{id: acme, capabilities: ["*"], keys: [{id: %s, hash: "%s", scopes: [invoke, read]}]}]
fleets: [{capability: weather, manifest: %q, backends: ["%s"]}]
`, id, tenant.HashOf(secret, nil), manifest, strings.Join(backends, `", "`))))
		connects(t, b, public, admin, tenant.Credential(id, secret), shots)
	})
}

// connects opens the page of a gateway and follows it. key is empty if the gateway requires none.
func connects(t *testing.T, b *browsertest.Browser, public, admin, key, shots string) {
	t.Helper()
	url := "http://" + public
	args := map[string]any{"origins": []string{url}, "key": key, "admin": "http://" + admin}
	if shots != "" {
		args["shots"] = filepath.Join(shots, map[bool]string{true: "open", false: "keyed"}[key == ""])
		check.Must(t, os.MkdirAll(args["shots"].(string), 0o755))
	}
	var saw connected
	b.Run(t, "connect", args, &saw)
	if saw.Address != url+"/docs" || len(saw.Wrong) > 0 || !saw.Off || !saw.Approved ||
		!strings.Contains(saw.Result, `"location": "Berlin"`) ||
		!slices.Equal(saw.Tools, []string{"get_current_weather", "get_forecast", "export_report"}) {
		t.Errorf("%+v", saw)
	}
	if key != "" && (len(saw.Said) != 2 || !strings.Contains(saw.Said[1], "This key is not accepted: ")) {
		t.Errorf("%q", saw.Said)
	}
	for _, reason := range []string{"OK", "INVALID_BODY"} {
		if !slices.Contains(saw.Reasons, reason) {
			t.Errorf("the last calls are %q", saw.Reasons)
		}
	}
	for _, c := range mcpclients.All() {
		want, err := c.Added(mcpclients.Entry{URL: url + "/mcp", Name: "capgate", Key: key != ""}, nil)
		if err != nil || saw.Entries[c.Name] != string(want) {
			t.Errorf("%s: %s, %v", c.Name, saw.Entries[c.Name], err)
		}
		command := strings.Fields(saw.Commands[c.Name])
		if exit, out, errs := capgateRun(t, command[1:len(command)-1]...); exit != 0 || out != string(want) {
			t.Errorf("%q prints %s%s", command, out, errs)
		}
	}
	for _, language := range slices.Sorted(maps.Keys(saw.Programs)) {
		out := executed(t, language, saw.Programs[language], "CAPGATE_KEY="+key)
		if strings.Contains(saw.Programs[language], "CAPGATE_KEY") != (key != "") ||
			!strings.Contains(out, `"location":"Berlin"`) {
			t.Errorf("%s\nprints %s", saw.Programs[language], out)
		}
	}
	if len(saw.Programs) != 5 {
		t.Errorf("%d programs", len(saw.Programs))
	}
}

// executed runs a program as it stands, and returns what it prints.
func executed(t *testing.T, language, program string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	file, command := "call.sh", []string{"bash"}
	switch language {
	case "Python":
		file, command = "call.py", []string{installed(t, "venv", "bin", "python")}
	case "TypeScript":
		arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
		file, command = "call.mts", []string{installed(t, "node", "node_modules", "node-linux-"+arch, "bin", "node")}
	case "Go":
		file, command = "call.go", []string{"go", "run"}
	}
	put(t, dir, file, program)
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], file)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s\n%s", language, err, out, program)
	}
	return string(out)
}
