package config_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/testkit/check"
)

const toolHash = "9f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c"

func TestParseToolsets(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("f", []byte(`
tenants: [{id: acme, capabilities: ["*"]}]
toolsets:
  - name: support
    tenants: [acme]
    groups: [Support]
    tools:
      - capability: "git*"
      - {capability: mail, tool: send, name: reply, description: Replies., hash: `+toolHash+`,
         arguments: {from: support@example.com, tags: [a, 1], copy: false}}
fleets: [{capability: mail, backends: []}]
`))
	check.Must(t, err)
	s := c.Toolsets[0]
	all, one := &s.Tools[0], &s.Tools[1]
	if s.Name != "support" || s.Tenants[0] != "acme" || s.Groups[0] != "Support" || all.Tool != "*" ||
		one.Name != "reply" || one.Hash.String() != toolHash || len(one.Arguments) != 3 ||
		string(one.Arguments[2].Value) != `["a",1]` {
		t.Errorf("got %+v", s)
	}
}

func TestParseToolsetsErrors(t *testing.T) {
	t.Parallel()
	many := func(one string, n int) string { return "[" + strings.Repeat(one+", ", n) + "]" }
	entry := func(more string) string {
		return "toolsets: [{name: s, tools: [{capability: a, tool: t" + more + "}]}]"
	}
	var names []string
	for i := range 65 {
		name := "s" + strings.Repeat("a", i%62) + strings.Repeat("b", i/62)
		names = append(names, "{name: "+name+", tools: [{capability: a}]}")
	}
	for name, c := range map[string]struct{ file, want string }{
		"no name":      {"toolsets: [{tools: [{capability: a}]}]", "f:1: toolsets[0].name: required"},
		"no tools":     {"toolsets:\n- name: s", "f:2: toolsets[0].tools: required"},
		"no entry":     {"toolsets:\n- name: s\n  tools: []", "toolsets[0].tools: required"},
		"a bad name":   {"toolsets: [{name: ../x, tools: [{capability: a}]}]", "is not the name of a toolset"},
		"a taken name": {"toolsets: [{name: sse, tools: [{capability: a}]}]", "is not the name of a toolset"},
		"twice": {"toolsets:\n- {name: s, tools: [{capability: a}]}\n- {name: s, tools: [{capability: b}]}",
			"f:3: toolsets[1].name: s never applies: toolsets[0] has the same name and covers all its callers"},
		"an unknown tenant": {"tenants: []\ntoolsets:\n- {name: s, tenants: [x], tools: [{capability: a}]}",
			"f:3: toolsets[0].tenants: there is no tenant x"},
		"a tenant without tenants": {"toolsets: [{name: s, tenants: [x], tools: [{capability: a}]}]",
			"there is no tenant x"},
		"a bad pattern": {"toolsets: [{name: s, tools: [{capability: 'a['}]}]",
			"tools[0].capability: \"a[\" is not a pattern"},
		"a bad tool": {"toolsets: [{name: s, tools: [{capability: a, tool: 'a b'}]}]",
			"tools[0].tool: \"a b\" is not a pattern"},
		"a pattern with a name": {"toolsets: [{name: s, tools: [{capability: a, name: n}]}]",
			"tools[0].name: needs the exact names of a capability and a tool"},
		"a pattern with arguments": {"toolsets: [{name: s, tools: [{capability: 'a*', tool: t, arguments: {x: 1}}]}]",
			"tools[0].arguments: needs the exact names"},
		"a prompt with a name": {"toolsets:\n- name: s\n  tools:\n  - {capability: a, tool: prompts/p, name: n}",
			"f:4: toolsets[0].tools[0].name: is only for tools; \"prompts/p\" is a prompt"},
		"a prompt with a hash": {"toolsets: [{name: s, tools: [{capability: a, tool: prompts/p, hash: " + toolHash +
			", description: d}]}]", "tools[0].description: is only for tools"},
		"resources with a hash": {"toolsets: [{name: s, tools: [{capability: a, tool: resources/read, hash: " +
			toolHash + "}]}]", "tools[0].hash: is only for tools"},
		"completion with arguments": {"toolsets: [{name: s, tools: [{capability: a, tool: completion/complete, " +
			"arguments: {a: 1}}]}]", "tools[0].arguments: is only for tools"},
		"a description without hash": {entry(", description: d"), "tools[0].hash: required with description"},
		"a bad hash":                 {entry(", hash: sha256:1"), "tools[0].hash: "},
		"a name of the gateway":      {entry(", name: call_tool"), "call_tool is the name of the gateway's own tool"},
		"a long name":                {entry(", name: " + strings.Repeat("n", 129)), "tools[0].name: "},
		"a name with a slash":        {entry(", name: a/b"), "tools[0].name: \"a/b\" is not the name of a tool"},
		"a long description": {entry(", hash: " + toolHash + ", description: " + strings.Repeat("d", 8193)),
			"has more than 8192 bytes"},
		"arguments in a list": {entry(", arguments: [a]"), "tools[0].arguments: must be a mapping"},
		"no arguments":        {entry(", arguments: {}"), "tools[0].arguments: must be a mapping"},
		"arguments in two cases": {
			"toolsets:\n- name: s\n  tools:\n  - {capability: a, tool: t, arguments: {a: 1, A: 2}}",
			"f:4: toolsets[0].tools[0].arguments: the name"},
		"large arguments": {entry(", arguments: {a: " + strings.Repeat("a", 17<<10) + "}"),
			"or they have more than 16384 bytes"},
		"a slip": {entry(", argumens: {a: 1}"), "argumens"},
		"a name twice": {"toolsets: [{name: s, tools: [{capability: a, tool: t, name: n}, " +
			"{capability: a, tool: u, name: n}]}]",
			"tools[1].name: n is already the name of tools[0]"},
		"a tool twice": {"toolsets: [{name: s, tools: [{capability: a, tool: t}, {capability: a, tool: t}]}]",
			"tools[1]: t of a is already in tools[0]"},
		"many entries": {"toolsets: [{name: s, tools: " + many("{capability: a}", 257) + "}]",
			"tools: has 257 entries; at most 256 are allowed"},
		"many groups": {"toolsets: [{name: s, groups: " + many("g", 33) + ", tools: [{capability: a}]}]",
			"groups: has 33 entries; at most 32 are allowed"},
		"many": {"toolsets: [" + strings.Join(names, ", ") + "]",
			"toolsets: a tenant has 65 toolsets; at most 64 are allowed"},
	} {
		_, err := config.Parse("f", []byte(c.file+"\nfleets: [{capability: a, backends: []}]\n"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
