package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		check.Must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	const fleet = "fleets: [{capability: a, policy: ask, backends: ['b:1']}]\n"
	good := write("good.yaml", fleet)
	bad := write("bad.yaml", "lisen: ':1'\nadmin: x\n"+fleet)
	noCert := write("cert.yaml", "tls: {cert_file: /nowhere/c, key_file: /nowhere/k}\nfleets: [{capability: a, "+
		"backends: ['b:1'], tls: {ca_file: "+good+"}}]\n")
	noFolder := write("audit.yaml", "audit: {to: /nowhere/log}\n"+fleet)
	stored := write("stored.yaml", "identity: {store: redis}\n"+fleet)
	filed := write("filed.yaml", "tenants: []\n"+fleet)
	shared := write("shared.yaml", "redis: redis://h\nidentity: {store: redis}\n"+fleet)
	dynamic := write("dynamic.yaml", "id: files\nimage: i\ntool_source: dynamic\n")
	static := write("static.yaml", "id: a\nimage: i\n")
	misfits := write("misfits.yaml",
		"fleets:\n- {capability: a, backends: [], manifest: "+static+
			", validate_arguments: true, enforce_credentials: true, discovery: {interval: 1m}}\n"+
			"- {capability: b, backends: [], manifest: "+dynamic+
			", validate_arguments: true, discovery: {interval: 1m}}\n")
	declares := func(id, tool string) string {
		return write(id+".manifest.yaml", "id: "+id+"\nimage: i\ntools: [{name: "+tool+
			", description: d, input_schema: {type: object}}]\n")
	}
	toolNames := write("toolnames.yaml", "fleets:\n"+
		"- {capability: c, policy: ask, backends: ['b:1'], mcp: {name: none}, manifest: "+declares("c", "same")+"}\n"+
		"- {capability: d, policy: ask, backends: ['b:1'], mcp: {name: none}, manifest: "+declares("d", "same")+"}\n"+
		"- {capability: e, policy: ask, backends: ['b:1'], manifest: "+declares("e", strings.Repeat("n", 126))+"}\n")
	wrong := write("wrong.yaml", "fleet: []\nimage: i\n")
	recommendsNothing := write("blocks.yaml",
		"id: weather\nimage: i\ntools: [{name: t, description: d, input_schema: {type: object}}]\n")
	blocked := write("blocked.yaml",
		"fleets: [{capability: weather, backends: ['b:1'], manifest: "+recommendsNothing+
			"}, {capability: a, backends: ['b:2']}]\n")
	ruled := write("ruled.yaml", "policies: {}\nfleets: [{capability: a, backends: ['b:1']}, {capability: b, "+
		"backends: ['b:1'], policy: block}]\n")
	unbounded := write("unbounded.yaml", "fleets: [{capability: a, protocol: openparallax, backends: ['b:1'], "+
		"services: [openparallax.v1.ClientService], deadline: off}]\n")
	exposed := write("exposed.yaml",
		"admin: 0.0.0.0:8081\nfleets: [{capability: a, policy: allow, backends: ['b:1']}]\n")
	guarded := write("guarded.yaml", "admin: 0.0.0.0:8081\noperators: {insecure: true}\n"+
		"fleets: [{capability: a, policy: allow, backends: ['b:1']}]\n")
	for name, test := range map[string]struct {
		args           []string
		status         int
		stdout, stderr []string // parts
	}{
		"good": {[]string{"--config", good}, 0, []string{"ok: 1 fleet, 1 backend\n"}, nil},
		"stored": {[]string{"--config", stored}, 0, []string{"ok: 1 fleet"},
			[]string{stored + ": warning: redis is embedded: new tenants and API keys are lost at a restart"}},
		"filed": {[]string{"--config", filed}, 0, []string{"ok: 1 fleet"},
			[]string{filed + ": warning: redis is embedded: the usage of tenants' limits"}},
		"shared": {[]string{"--config", shared}, 0, []string{"ok: 1 fleet"}, nil},
		"no operators": {[]string{exposed}, 1, nil, []string{
			exposed + ": admin: serve does not start: 0.0.0.0:8081 is not on loopback, and there is no operators " +
				"block"}},
		"guarded": {[]string{guarded}, 0, []string{"ok: 1 fleet"}, []string{"the admin API needs no credential"}},
		"example": {[]string{"--config", "../../capgate.example.yaml"}, 0, []string{"ok: 5 fleets, 8 backends\n"}, nil},
		"unbounded": {[]string{unbounded}, 1, nil,
			[]string{unbounded + ":1: fleets[0].deadline: off is only for fleets of " +
				"other services, and calls of engines need a limit"}},
		"bad": {[]string{"--config=" + bad}, 1, nil,
			[]string{bad + ":1: lisen: unknown field", "\n" + bad + ":2: admin: "}},
		"files": {[]string{"--config", noCert}, 1, nil,
			[]string{noCert + ":1: tls: /nowhere/c: cannot be read",
				noCert + ":2: fleet a: tls.ca_file: " + good + " contains no PEM"}},
		"audit": {[]string{"--config", noFolder}, 1, nil,
			[]string{noFolder + ":1: audit.to: directory /nowhere"}},
		"misfits": {[]string{"--config", misfits}, 1, nil, []string{
			misfits + ":2: fleet a: validate_arguments: " + static + " has no tools", misfits +
				":2: fleet a: discovery: " + static + " does not have tool_source: dynamic",
			misfits + ":3: fleet b: manifest: " + dynamic + " belongs to the capability files"}},
		"names of tools over MCP": {[]string{"--config", toolNames}, 1, nil, []string{
			": fleet d: mcp: name: none is not possible: c also has a tool same, and its names have no prefix either",
			": fleet e: mcp: the name of the tool nnnn",
			"would have more than 128 bytes with the prefix e; give the fleet a shorter mcp.name"}},
		"no such file": {[]string{"--config", dir + "/none"}, 1, nil,
			[]string{dir + "/none: cannot be read: no such file"}},
		"both": {[]string{"--config", good, good}, 2, nil, []string{"want FILE or --config, not both"}},
		"manifest": {[]string{"../../examples/weather/manifest.yaml"}, 0, []string{"ok: 1 manifest, 3 tools\n"},
			nil},
		"its directory": {[]string{"../../examples/weather"}, 0, []string{"ok: 1 manifest, 3 tools\n"}, nil},
		"directories": {[]string{"../../examples"}, 0, []string{"ok: 3 manifests, 4 tools, 1 with dynamic tools\n"},
			nil},
		"manifests": {[]string{dynamic, "../../examples/weather"}, 0,
			[]string{"ok: 2 manifests, 3 tools, 1 with dynamic tools\n"}, nil},
		"bad manifest": {[]string{wrong}, 1, nil, []string{wrong + ":1: fleet: unknown field", wrong +
			":1: id: required"}},
		"no --config": {[]string{good}, 0, []string{"ok: 1 fleet, 1 backend\n"}, nil},
		"toolsets": {[]string{write("toolsets.yaml", "toolsets: [{name: s, tools: [{capability: a}]}]\n"+fleet)}, 0,
			[]string{"ok: 1 fleet, 1 backend, 1 toolset\n"}, nil},
		"bad config": {[]string{bad}, 1, nil, []string{bad + ":1: lisen: unknown field", "\n" + bad + ":2: admin: "}},
		"blocked": {[]string{blocked}, 0, []string{"ok: 2 fleets"}, []string{
			blocked + ": warning: fleet weather: all tools are blocked: its policy is block, no tool of " +
				recommendsNothing, blocked + ": warning: fleet a: all tools are blocked: its policy is block, " +
				"it has no manifest"}},
		"with rules": {[]string{ruled}, 0, []string{"ok: 2 fleets"}, []string{
			ruled + ": warning: fleet a: all tools are blocked until a rule allows them: it has no policy and no " +
				"manifest\n"}},
		"both kinds": {[]string{good, "../../examples/weather"}, 0,
			[]string{"ok: 1 fleet, 1 backend, 1 manifest, 3 tools\n"}, nil},
		"misspelt": {[]string{write("fleet.yaml", "fleet: []\n")}, 1, nil, []string{`did you mean`, "fleets"}},
		"twice": {[]string{dynamic, dynamic}, 1, nil,
			[]string{dynamic + ": id: files is already the id of " + dynamic}},
		"no manifest": {[]string{t.TempDir()}, 1, nil, []string{"contains no manifests"}},
		"nothing there": {[]string{dir + "/none", wrong}, 1, nil,
			[]string{dir + "/none: cannot be read: no such file", wrong + ":1: id: required"}},
		"unknown flag":  {[]string{"--confg", good}, 2, nil, []string{"capgate check -h"}},
		"asks for help": {[]string{"-h"}, 0, []string{"Usage: capgate check", "--config"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			if got := run(t.Context(), append([]string{"check"}, test.args...),
				stdio{strings.NewReader(""), &stdout, &stderr}); got != test.status {
				t.Errorf("exit status %d, want %d", got, test.status)
			}
			for _, out := range []struct {
				name, text string
				parts      []string
			}{{"stdout", stdout.String(), test.stdout}, {"stderr", stderr.String(), test.stderr}} {
				if len(out.parts) == 0 && out.text != "" {
					t.Errorf("%s: %q, want nothing", out.name, out.text)
				}
				for _, part := range out.parts {
					if !strings.Contains(out.text, part) {
						t.Errorf("%s: %q lacks %q", out.name, out.text, part)
					}
				}
			}
		})
	}
}
