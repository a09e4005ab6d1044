package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/testkit/check"
)

// root is the repository's, seen from this package.
const root = "../../.."

// comment is the first line of a configuration, by which editors find the schema.
const comment = "# yaml-language-server: $schema=" + config.SchemaURL + "\n"

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	if err := run(root, true); err != nil {
		t.Error(err)
	}
}

// Every field has documentation and every default is valid.
func TestFieldsAreDocumented(t *testing.T) {
	t.Parallel()
	docs := comments{}
	for _, dir := range packages() {
		check.Must(t, docs.read(root, dir))
	}
	all := config.Describe(docs.of, protocols.Config()...)
	walk(all, "", func(path string, d *strictyaml.Description) {
		if d.Doc == "" {
			t.Errorf("%s has no comment", path)
		}
	})
	if _, err := config.Parse("f", []byte("registration: {capabilities: ['*']}"), protocols.Config()...); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

// walk visits all fields below d.
func walk(d *strictyaml.Description, path string, visit func(path string, d *strictyaml.Description)) {
	if d.Items != nil {
		walk(d.Items, path, visit)
	}
	for _, f := range d.Fields {
		at := strings.TrimPrefix(path+"."+f.Name, ".")
		visit(at, f)
		walk(f, at, visit)
	}
}

func compile(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	check.Must(t, err)
	c := jsonschema.NewCompiler()
	check.Must(t, c.AddResource(config.SchemaURL, doc))
	schema, err := c.Compile(config.SchemaURL)
	check.Must(t, err)
	return schema
}

// instance returns what YAML 1.2 makes of a document, as editors see it.
func instance(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return instance(n.Content[0])
	case yaml.AliasNode:
		return instance(n.Alias)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = instance(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		all := make([]any, len(n.Content))
		for i := range n.Content {
			all[i] = instance(n.Content[i])
		}
		return all
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool", "!!int", "!!float":
		if i, err := strconv.Atoi(n.Value); err == nil && n.Tag == "!!int" { // 010 is ten
			return i
		}
		var v any
		if n.Decode(&v) == nil {
			if text, err := json.Marshal(v); err == nil { // neither .inf nor .nan
				if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err == nil {
					return v
				}
			}
		}
	}
	return n.Value
}

// judge returns what the decoder and the schema say about a document.
func judge(schema *jsonschema.Schema, data []byte) (decoder, bySchema error) {
	_, decoder = config.Parse("f", data, protocols.Config()...)
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return decoder, err
	}
	if doc.Kind == 0 {
		return decoder, errors.New("empty")
	}
	return decoder, schema.Validate(instance(&doc))
}

// Every configuration in the repository names the schema, and schema and decoder accept it.
func TestConfigurationsOfTheRepository(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	files, values := 0, 0
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && (e.Name() == "bin" || e.Name() == "testdata" || e.Name() == ".git") {
			return filepath.SkipDir
		}
		if err != nil || e.IsDir() || !strings.HasSuffix(file, ".yaml") {
			return err
		}
		data, err := os.ReadFile(file) //nolint:gosec // a file of the repository
		if err != nil {
			return err
		}
		var fields map[string]yaml.Node
		if yaml.Unmarshal(data, &fields) != nil { // a template, or several documents
			return nil
		}
		if of, is := fields["config"]; is && of.Kind == yaml.MappingNode { // values of the chart
			if len(of.Content) == 0 { // the chart fills it in
				return nil
			}
			values++
			data, err = yaml.Marshal(&of)
		} else if _, is := fields["fleets"]; is {
			files++
			if !bytes.HasPrefix(data, []byte(comment)) {
				t.Errorf("%s: the first line must be %s", file, comment)
			}
		} else {
			return nil
		}
		decoder, bySchema := judge(schema, data)
		if err := errors.Join(err, decoder, bySchema); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		return nil
	})
	if err != nil || files < 4 || values < 3 {
		t.Errorf("%d files, %d values, %v", files, values, err)
	}
}

var snippet = regexp.MustCompile("(?s)```yaml test\n(.*?)```")

// The tested snippets of the documentation are accepted by the schema, too.
func TestSnippets(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	docs, err := filepath.Glob(root + "/docs/*.md")
	check.Must(t, err)
	deeper, _ := filepath.Glob(root + "/docs/*/*.md")
	found := 0
	for _, file := range append(append(docs, deeper...), root+"/README.md") {
		text, err := os.ReadFile(file) //nolint:gosec // a file of the repository
		check.Must(t, err)
		for _, m := range snippet.FindAllSubmatch(text, -1) {
			found++
			if decoder, bySchema := judge(schema, m[1]); decoder != nil || bySchema != nil {
				t.Errorf("%s: %v, %v\n%s", file, decoder, bySchema, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no example was found")
	}
}

func full(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/full.yaml")
	check.Must(t, err)
	return data
}

// testdata/full.yaml, and the example with its comments, have every field.
func TestEveryField(t *testing.T) {
	t.Parallel()
	if decoder, bySchema := judge(compile(t), full(t)); decoder != nil || bySchema != nil {
		t.Fatalf("full.yaml: %v, %v", decoder, bySchema)
	}
	var doc yaml.Node
	check.Must(t, yaml.Unmarshal(full(t), &doc))
	example, err := os.ReadFile(root + "/capgate.example.yaml")
	check.Must(t, err)
	inFull := pathsOf(&doc, "", map[string]bool{})
	all := config.Describe(comments{}.of, protocols.Config()...)
	walk(all, "", func(path string, d *strictyaml.Description) {
		if !inFull[path] {
			t.Errorf("full.yaml lacks %s", path)
		}
		if !regexp.MustCompile(`\b` + d.Name + `:`).Match(example) {
			t.Errorf("capgate.example.yaml lacks %s", path)
		}
	})
}

// pathsOf returns the paths of all fields of a document.
func pathsOf(n *yaml.Node, path string, all map[string]bool) map[string]bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i, child := range n.Content {
		switch {
		case n.Kind != yaml.MappingNode:
			pathsOf(child, path, all)
		case i%2 == 1:
			at := strings.TrimPrefix(path+"."+n.Content[i-1].Value, ".")
			all[at] = true
			pathsOf(child, at, all)
		}
	}
	return all
}

// Documents that both refuse. The decoder alone refuses faults that a schema cannot express: bounds of durations,
// fields that depend on others, names that must be unique.
func TestBothRefuse(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	const fleet = "fleets: [{capability: a, backends: ['b:1']}]\n"
	in := func(fields string) string { return "fleets: [{capability: a, backends: ['b:1'], " + fields + "}]\n" }
	for _, file := range []string{
		"", "- a\n", "fleets: {}\n", "fleets: [{}]\n", "fleets: [{capability: a}]\n", "fleets:\n",
		fleet + "lisen: ':1'\n", fleet + "log: {leveln: info}\n", fleet + "log: {level: loud}\n", fleet + "log:\n",
		fleet + "log: []\n", fleet + "listen: 8080\n", fleet + "listen: ''\n", fleet + "listen: [a]\n",
		fleet + "redis: http://h\n", fleet + "redis: {password: x}\n", fleet + "redis: {timeout: 5}\n",
		fleet + "redis: []\n", fleet + "drain: {delay: 5}\n", fleet + "drain: {delay: -1s}\n",
		fleet + "drain: {delay: 1d}\n", fleet + "overload: on\n", fleet + "overload: {max_memory: much}\n",
		fleet + "cache: {entries: 0}\n", fleet + "metrics: {tenants: 10001}\n", fleet +
			"metrics: {tenants: x}\n", fleet + "tls: {cert_file: c}\n", fleet +
			"tls: {cert_file: c, key_file: k, client_auth: maybe}\n",
		fleet + "trusted_proxies: {hops: 1}\n", fleet + "trusted_proxies: {from: []}\n",
		fleet + "trusted_proxies: {from: [home]}\n", fleet + "proxy_protocol: v3\n", fleet + "audit: {}\n",
		fleet + "cors: {}\n", fleet + "cors: {origins: [app.test]}\n", fleet + "artifacts: {max_size: 0}\n",
		fleet + "traces: {sample: 0.5}\n", fleet + "traces: {endpoint: 'otel:1', sample: 1.5}\n",
		fleet + "approvals: {notices: [{name: n, url: 'ftp://h', secret_file: s}]}\n",
		fleet + "approvals: {notices: [{name: n, url: 'http://h', secret_file: s, events: [made]}]}\n",
		fleet + "tenants: [{id: acme}]\n", fleet + "tenants: [{id: 'a b', capabilities: []}]\n",
		fleet + "tenants: [{id: a, capabilities: [], keys: [{id: x, hash_file: h}]}]\n",
		fleet + "tenants: [{id: a, capabilities: [], keys: [{id: abcdefghijklmnop, hash: x}]}]\n",
		fleet + "tenants: [{id: a, capabilities: [], keys: [{id: abcdefghijklmnop, hash_file: h, scopes: [root]}]}]\n",
		fleet + "limits: {calls_per_second: 0}\n", fleet + "limits: {per_hour: 1}\n",
		fleet + "tenants: []\nissuers: [{name: a, issuer: 'https://a'}]\n",
		fleet + "tenants: []\nissuers: [{name: a, issuer: 'https://a', audiences: []}]\n",
		fleet + "tenants: []\nissuers: [{name: a, issuer: 'https://a', audiences: [b], algorithms: [HS256]}]\n",
		fleet + "shields: [{name: main, address: h}]\n", fleet + "registration: {policy: maybe}\n",
		in("policy: blok"), in("dialect: elder"), in("class: thing"), in("affinity: sticky"), in("protocol: soap"),
		in("health: {rise: 0}"), in("health: {probe: ping}"),
		in("queue: {wait: x}"), in("queue: {length: x}"), in("deadline: {max: 10}"), in("retry: {share: 2}"),
		in("idempotent: ['get_*']"), in("methods: [x.Y]"), in("services: [a..b]"), in("drift_guard: no"),
		in("engine: {agents: 2}"), in("session_ttl: 0"), "fleets: [{capability: Weather, backends: []}]\n",
		"fleets: [{capability: a, backends: [b]}]\n", "fleets: [{capability: a, backends: [{weight: 1}]}]\n",
		"fleets: [{capability: a, backends: [{addr: 'b:1', weight: 10001}]}]\n",
		"fleets: [{capability: a, backends: [{addr: 'b:1', port: 1}]}]\n",
		"fleets: [{capability: a, backends: [[]]}]\n",
	} {
		decoder, bySchema := judge(schema, []byte(file))
		if decoder == nil || bySchema == nil {
			t.Errorf("%q: decoder %v, schema %v", file, decoder, bySchema)
		}
	}
}

// Documents that both accept, in unusual spellings.
func TestBothAccept(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	for _, fields := range []string{
		"", "redis: embedded", "redis: {url: 'redis://h'}", "overload: off", "overload: {}", "drain: {delay: 0}",
		"drain: {delay: '0', timeout: 1h30m}", "policies: {}", "tenants: []", "zone: 1", "zone: true",
		"metrics: {tenants: '7'}", "metrics: {tenants: 007}", "artifacts: {max_size: 1e9}",
		"artifacts: {max_size: 1.5 GB}", "artifacts: {max_size: 4096}", "cors: {origins: []}",
		"client_limits: {exempt: []}", "policies: {shadow: 'true'}", "traces: {endpoint: 'HTTP://otel', sample: 1}",
		"tenants: [{id: 1, capabilities: [2]}]", "limits: {messages: 1}",
	} {
		decoder, bySchema := judge(schema, []byte("fleets: [{capability: 7, backends: []}]\n"+fields+"\n"))
		if decoder != nil || bySchema != nil {
			t.Errorf("%s: decoder %v, schema %v", fields, decoder, bySchema)
		}
	}
}

// odd are values that replace each value of the full configuration.
var odd = []string{"0", "1", "-1", "5", "007", "0x10", "1e3", "1_000", ".5", "1.0", "true", "'true'", "null", "''", "x",
	"5s", "-5s", "1KiB", "host:1", "':1'", "'[::1]:1'", "https://h/x", "HTTPS://h/x", "10.0.0.1", "a.b/C", "'*'",
	".inf", "2027-01-31", "2027-01-31T00:00:00Z", "[]", "{}", "[x]", "[1]", "{a: b}", "[allow]", "allow", "none",
	"!!binary aGk=", "!!str 5"}

// Whatever the decoder accepts the schema accepts, wherever a value of the full configuration is replaced.
func TestSchemaAcceptsWhatTheDecoderAccepts(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	var doc yaml.Node
	check.Must(t, yaml.Unmarshal(full(t), &doc))
	var all []*yaml.Node
	collect(doc.Content[0], &all)
	accepted := 0
	for i, n := range all {
		was := *n
		for j, text := range odd {
			if (i+j)%12 != 0 { // each value meets many fields, and each field many values
				continue
			}
			var value yaml.Node
			check.Must(t, yaml.Unmarshal([]byte(text), &value))
			*n = *value.Content[0]
			data, err := yaml.Marshal(&doc)
			check.Must(t, err)
			decoder, bySchema := judge(schema, data)
			if decoder != nil {
				continue
			}
			accepted++
			if bySchema != nil {
				t.Errorf("%s in place of %q in line %d: %v", text, was.Value, was.Line, bySchema)
			}
		}
		*n = was
	}
	if accepted < 100 {
		t.Errorf("the decoder accepted only %d documents", accepted)
	}
}

// collect returns the values below a node.
func collect(n *yaml.Node, all *[]*yaml.Node) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		if !slices.Contains(*all, child) && child.Kind != yaml.AliasNode && child.Anchor == "" {
			*all = append(*all, child)
		}
		collect(child, all)
	}
}
