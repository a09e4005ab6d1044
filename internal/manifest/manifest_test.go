package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
)

const weather = `id: weather-lookup
class: tool
image: ghcr.io/example/weather-lookup:1.0.0
tools:
  - name: get_current_weather
    description: Get current weather conditions for a location.
    input_schema:
      type: object
      properties:
        location: {type: string, description: City name or coordinates}
        units: {type: string, description: "Unit system: metric or imperial", default: "metric"}
      required: ["location"]
    recommended_policy: allow
  - {name: report, description: d, input_schema: {type: object}, requires_confirmation: true,
     terminal_on_success: true}
  - {name: erase, description: d, input_schema: {type: object}}
  - {name: wipe, description: d, input_schema: {type: object}, requires_confirmation: true, recommended_policy: block}
credentials:
  - {name: WEATHER_API_KEY, scope: system, required: true, description: API key for the weather service}
  - {name: TOKEN, scope: user, credential_type: secret, required: false, description: ""}
network:
  mode: allowlist
  hosts: ["api.example.com:443", "*.example.com:443", "*.example.com", "10.0.0.1:80", "[::1]:443"]
filesystem: temp
resources: {max_memory_mb: 256, max_cpu_fraction: 0.75, max_cpu_seconds: 5, pids_limit: 32}
sharing: {mode: shared, max_concurrent: 4, idle_timeout_seconds: 60}
`

func TestAManifestWithEveryField(t *testing.T) {
	t.Parallel()
	m, err := manifest.Parse("m.yaml", []byte(weather))
	check.Must(t, err)
	var tools []string
	for _, tool := range m.Tools {
		tools = append(tools, tool.Name+" "+tool.Recommended.String())
	}
	want := []string{"get_current_weather allow", "report ask", "erase block", "wipe block"}
	if !reflect.DeepEqual(tools, want) {
		t.Errorf("tools %q, want %q", tools, want)
	}
	first := m.Tools[0]
	if err := first.Schema.Check(t.Context(), []byte(`{"units":"metric"}`)); err == nil ||
		!strings.Contains(err.Error(), "location") {
		t.Errorf("arguments without location: %v", err)
	}
	if !m.Tools[1].TerminalOnSuccess || first.TerminalOnSuccess {
		t.Errorf("terminal_on_success is not as written; m %+v; first %+v", m, first)
	}
	m.Tools = nil
	expected := &manifest.Manifest{
		ID: "weather-lookup", Class: call.Tool, Image: "ghcr.io/example/weather-lookup:1.0.0",
		Network: manifest.Network{Mode: manifest.Allowlist,
			Hosts: []string{"api.example.com:443", "*.example.com:443", "*.example.com", "10.0.0.1:80", "[::1]:443"}},
		Filesystem: manifest.Temp,
		Credentials: []manifest.Credential{
			{Name: "WEATHER_API_KEY", Required: true, Description: "API key for the weather service"},
			{Name: "TOKEN", PerUser: true},
		},
		Resources: manifest.Resources{MaxMemoryMB: 256, MaxCPUFraction: 0.75, MaxCPU: 5 * time.Second,
			PidsLimit: 32},
		Sharing: manifest.Sharing{Shared: true, MaxConcurrent: 4, IdleTimeout: time.Minute},
	}
	if !reflect.DeepEqual(m, expected) {
		t.Errorf("got  %+v\nwant %+v", m, expected)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	m, err := manifest.Parse("m.yaml", []byte("id: a\nimage: i\n"))
	check.Must(t, err)
	want := &manifest.Manifest{ID: "a", Image: "i", Network: manifest.Network{Mode: manifest.NoNetwork},
		Filesystem: manifest.NoFilesystem,
		Resources:  manifest.Resources{MaxMemoryMB: 128, MaxCPUFraction: 0.5, MaxCPU: 30 * time.Second, PidsLimit: 64}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	m, err = manifest.Parse("m.yaml",
		[]byte("id: a\nimage: i\nclass: environment\ntool_source: dynamic\ntools: []\ncache: {enabled: true}\n"+
			"filesystem: workspace\nsharing: {mode: shared}"))
	if err == nil {
		t.Errorf("an environment that is shared: %+v", m)
	}
	m, err = manifest.Parse("m.yaml",
		[]byte("id: a\nimage: i\nclass: environment\ntool_source: dynamic\n"+
			"tools: []\ncache: {enabled: true}\nfilesystem: workspace\n"))
	if err != nil || m.Class != call.Environment || !m.Dynamic || m.DiscoveryTool != "list_tools" || !m.Cache ||
		m.Filesystem != manifest.Workspace {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestMistakes changes one field of a valid manifest, and expects an error with its line, field and reason.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const head = "id: a\nimage: i\n"
	const tool = "name: t, description: d, input_schema: {type: object}"
	for name, test := range map[string]struct{ text, want string }{
		"empty":    {"", "m.yaml:1: the file is empty; id and image are required"},
		"not YAML": {"id: [", "m.yaml:1: not YAML"},
		"two documents": {head + "---\n" + head,
			"m.yaml:3: a second document begins here; a manifest is one document"},
		"unknown field":      {head + "imge: x", "m.yaml:3: imge: unknown field; did you mean \"image\"?"},
		"no id":              {"image: i", "m.yaml:1: id: required"},
		"no image":           {"id: a", "m.yaml:1: image: required"},
		"id in upper case":   {"id: Weather\nimage: i", "m.yaml:1: id: \"Weather\" is not an id"},
		"id with underscore": {"id: a_b\nimage: i", "lower-case letters, digits and hyphens"},
		"image with a space": {"id: a\nimage: i j", "m.yaml:2: image: \"i j\" is not an image"},
		"class": {head + "class: daemon",
			"m.yaml:3: class: \"daemon\" is not possible; it must be tool or environment"},
		"tool_source": {head + "tool_source: magic", "it must be manifest or dynamic"},
		"dynamic with tools": {head + "tool_source: dynamic\ntools: [{" + tool + "}]",
			"m.yaml:4: tools: not allowed with tool_source: dynamic"},
		"static with search": {head + "discovery_tool_name: list",
			"m.yaml:3: discovery_tool_name: only for tool_source: dynamic"},
		"tool without name": {head + "tools:\n- {description: d, input_schema: {}}",
			"m.yaml:4: tools[0].name: required"},
		"without description": {head + "tools: [{name: t, input_schema: {}}]", "tools[0].description: required"},
		"without schema":      {head + "tools: [{name: t, description: d}]", "tools[0].input_schema: required"},
		"tool's name": {head + "tools: [{name: a b, description: d, input_schema: {}}]",
			"tools[0].name: \"a b\" is not a tool's name"},
		"two of a name": {head + "tools:\n- {" + tool + "}\n- {" + tool + "}",
			"m.yaml:5: tools[1].name: t is already in line 4"},
		"schema is no schema": {head + "tools: [{name: t, description: d, input_schema: {type: objekt}}]",
			"tools[0].input_schema: is not a JSON Schema: at \"/type\""},
		"schema is a list": {head + "tools: [{name: t, description: d, input_schema: []}]",
			"input_schema: must be an object"},
		"schema twice": {head + "tools: [{name: t, description: d, input_schema: {type: object, type: object}}]",
			"input_schema.type: given twice"},
		"schema from the net": {head +
			"tools: [{name: t, description: d, input_schema: {$ref: 'https://example.com/s'}}]", "is another document"},
		"schema from a file": {head + "tools: [{name: t, description: d, input_schema: {$ref: 'file:///etc/passwd'}}]",
			"is another document"},
		"recommendation": {head + "tools: [{" + tool + ", recommended_policy: maybe}]",
			"it must be allow, ask or block"},
		"confirmation": {head + "tools: [{" + tool + ", requires_confirmation: sometimes}]",
			"it must be true or false"},
		"network's mode": {head + "network: {mode: some}", "it must be none, allowlist or any"},
		"hosts without a list": {head + "network: {mode: any, hosts: ['a.example:443']}",
			"network.hosts: only for mode: allowlist; this mode is any"},
		"value of a credential": {head + "credentials: [{name: 'A=hunter2', scope: user}]",
			"credentials[0].name: must be a name alone"},
		"user of a host": {head + "network: {mode: allowlist, hosts: ['u:hunter2@a.example:443']}",
			"network.hosts[0]: must not have a user"},
		"host without port": {head + "network: {mode: allowlist, hosts: [api.example.com]}",
			"network.hosts[0]: \"api.example.com\" is not host:port"},
		"port": {head + "network: {mode: allowlist, hosts: ['a.example:70000']}",
			"is not a port from 1 to 65535"},
		"port of a wildcard": {head + "network: {mode: allowlist, hosts: ['*.a.example:https']}",
			"is not a port from 1 to 65535"},
		"wildcard inside": {head + "network: {mode: allowlist, hosts: ['a.*.example:443']}", "is not a host's name"},
		"wildcard alone":  {head + "network: {mode: allowlist, hosts: ['*:443']}", "is not a host's name"},
		"filesystem":      {head + "filesystem: all", "it must be none, temp or workspace"},
		"workspace of a tool": {head + "filesystem: workspace",
			"m.yaml:3: filesystem: workspace is for class: environment only"},
		"credential's name": {head + "credentials: [{name: a-b, scope: user}]",
			"is not an environment variable's name"},
		"credential's scope": {head + "credentials: [{name: A}]", "credentials[0].scope: required"},
		"credential's type": {head + "credentials: [{name: A, scope: user, credential_type: oauth}]",
			"it must be secret"},
		"credential twice": {head + "credentials:\n- {name: A, scope: user}\n- {name: A, scope: system}",
			"m.yaml:5: credentials[1].name: A is already in line 4"},
		"memory": {head + "resources: {max_memory_mb: 0}", "it must be a whole number from 1"},
		"cores":  {head + "resources: {max_cpu_fraction: .nan}", "it must be a number of cores"},
		"shared environment": {head + "class: environment\nsharing: {mode: shared}",
			"m.yaml:4: sharing: shared is not possible for class: environment"},
		"sharing's mode": {head + "sharing: {mode: some}", "it must be session or shared"},
		"limit without":  {head + "sharing: {max_concurrent: 2}", "sharing.max_concurrent: only for mode: shared"},
		"port with a zero": {head + "network: {mode: allowlist, hosts: ['a.example:0443']}",
			"is not a port from 1 to 65535"},
		"too many tools": {head + many(), "m.yaml:3: tools: 1001 tools are too many"},
		"too large": {head + "#" + strings.Repeat("x", manifest.MaxBytes-len(head)),
			"the file has 4194305 bytes; a manifest may have at most 4194304"},
		"cache of a tool": {head + "cache: {enabled: true}", "m.yaml:3: cache: enabled is for class: environment only"},
		"a bomb":          {head + bomb(), "more than 1000000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Parse("m.yaml", []byte(test.text))
			var all strictyaml.Errors
			if !errors.As(err, &all) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// many returns a list of one tool too many.
func many() string {
	var b strings.Builder
	b.WriteString("tools:\n")
	for i := range manifest.MaxTools + 1 {
		fmt.Fprintf(&b, "- {name: t%d, description: d, input_schema: {type: object}}\n", i)
	}
	return b.String()
}

// bomb returns a YAML document of a few lines that expands to more values than memory holds.
func bomb() string {
	var b strings.Builder
	b.WriteString("tools: [{name: t, description: d, input_schema: {$defs: {a0: &a0 [1,1,1,1,1,1,1,1,1,1]")
	for i := range 9 {
		d := string(rune('0' + i))
		n := string(rune('1' + i))
		b.WriteString(", a" + n + ": &a" + n + " [" + strings.Repeat("*a"+d+",", 9) + "*a" + d + "]")
	}
	b.WriteString("}}}]\n")
	return b.String()
}

func TestEveryMistakeIsTold(t *testing.T) {
	t.Parallel()
	_, err := manifest.Parse("m.yaml", []byte("id: A\nclass: x\nfilesystem: y\ntools: [{}]\n"))
	var all strictyaml.Errors
	if !errors.As(err, &all) || len(all) != 7 { // also for the missing image, and three for the tool
		t.Errorf("%d problems: %v", len(all), err)
	}
}

func TestTheExamplesManifests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/manifest.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests among the examples: %v; files %+v", err, files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.Must(t, err)
		if _, err := manifest.Parse(file, text); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(weather))
	f.Add([]byte("id: a\nimage: i\ntool_source: dynamic\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := manifest.Parse("m.yaml", text)
		if err == nil && (m.ID == "" || m.Image == "" || m.Dynamic && len(m.Tools) > 0) {
			t.Errorf("%+v", m)
		}
	})
}
