package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/internal/testkit/check"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// publicMethods returns all methods that a caller can reach: those that reflection lists, those of
// capabilities, and those that exist only over JSON.
func publicMethods(t *testing.T, s *stranger) (all []protoreflect.MethodDescriptor) {
	t.Helper()
	listed, err := askReflection(t.Context(), s.conn,
		&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	check.Must(t, err)
	var services []protoreflect.ServiceDescriptor
	for _, l := range listed.GetListServicesResponse().GetService() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(l.GetName()))
		check.Must(t, err)
		services = append(services, d.(protoreflect.ServiceDescriptor))
	}
	for _, file := range []protoreflect.FileDescriptor{docpb.File_selu_capability_capability_proto,
		livepb.File_selu_capability_v1_capability_proto, capgatepb.File_capgate_v1_gateway_proto,
		capgatepb.File_capgate_v1_engines_proto,
		openparallaxv1.File_openparallax_v1_pipeline_proto, openparallaxv1.File_openparallax_v1_shield_proto} {
		for i := range file.Services().Len() {
			services = append(services, file.Services().Get(i))
		}
	}
	seen := map[protoreflect.FullName]bool{}
	public := map[protoreflect.FullName]bool{}
	for _, s := range services {
		public[s.FullName()] = true
		for i := range s.Methods().Len() {
			if m := s.Methods().Get(i); !seen[m.FullName()] {
				seen[m.FullName()] = true
				all = append(all, m)
			}
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			name := file.Services().Get(i).FullName()
			ours := strings.HasPrefix(string(name), "capgate.") || strings.HasPrefix(string(name), "selu.")
			if ours && public[name] == slices.Contains(operatorsOnly, name) {
				t.Errorf("%s: say whether it is at the public port", name)
			}
		}
		return true
	})
	return all
}

// operatorsOnly lists the services that no caller can reach. The responses of all others are compared.
var operatorsOnly = []protoreflect.FullName{"capgate.v1.CatalogAdmin", "capgate.v1.Policies", "capgate.v1.Registry",
	"capgate.v1.AuditLog", "capgate.v1.Calls", "capgate.v1.Fleets", "capgate.v1.History", "capgate.v1.Operators",
	"capgate.v1.Playground", "capgate.v1.Summary", "capgate.v1.Toolsets", "capgate.v1.Usage", "capgate.v1.Webhooks"}

// operation is a request. In its text, ⟦kind:N⟧ is replaced by the Nth id of a kind in a deployment.
type operation struct {
	method     protoreflect.MethodDescriptor
	request    string // JSON
	header     []string
	json       bool   // as JSON over HTTP
	credential string // empty means the tenant's first
}

func (o *operation) text() string {
	way := "gRPC"
	if o.json {
		way = "JSON"
	}
	return fmt.Sprintf("%s %s %s %q %s", way, o.method.FullName(), o.request, o.header, o.credential)
}

// pools holds the ids that a tenant has received, by their kind.
type pools struct {
	mu  sync.Mutex
	ids map[string][]string
}

func (p *pools) add(kind, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id != "" && !slices.Contains(p.ids[kind], id) {
		p.ids[kind] = append(p.ids[kind], id)
	}
}

func (p *pools) all(kind string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ids[kind])
}

// generator generates operations of one tenant.
type generator struct {
	t          *testing.T
	random     *rand.Rand
	methods    []protoreflect.MethodDescriptor
	of, theirs *pools
	canary     string // in its requests
	always     bool   // its answers may apply permanently
}

func (g *generator) next() operation {
	m := g.methods[g.random.IntN(len(g.methods))]
	switch g.random.IntN(16) { // values that others depend on
	case 0, 1, 2, 3:
		m = docpb.File_selu_capability_capability_proto.Services().ByName("Capability").Methods().ByName("Invoke")
	case 4:
		services := openparallaxv1.File_openparallax_v1_pipeline_proto.Services()
		m = services.ByName("ClientService").Methods().ByName("SendMessage")
	case 5, 6:
		m = g.ofKeys([]protoreflect.Name{"CreateKey", "CreateKey", "CreateKey", "ListKeys", "ListKeys", "GetKey",
			"RotateKey", "RotateKey", "RevokeKey"}[g.random.IntN(9)])
	}
	return g.make(m)
}

// another creates a key with the permissions grants, in JSON.
func (g *generator) another(grants string) operation {
	op := g.make(g.ofKeys("CreateKey"))
	op.request, op.header, op.credential = `{"tenant_id": "-", "key": `+grants+`}`, nil, ""
	return op
}

func (g *generator) ofKeys(method protoreflect.Name) protoreflect.MethodDescriptor {
	return capgatepb.File_capgate_v1_tenants_proto.Services().ByName("Tenants").Methods().ByName(method)
}

// make generates an operation of a method.
func (g *generator) make(m protoreflect.MethodDescriptor) operation {
	request, err := json.Marshal(g.message(m.Input()))
	check.Must(g.t, err)
	op := operation{method: m, request: string(request), json: hasJSON(m) && (g.random.IntN(2) == 0 || onlyJSON(m))}
	// a key has no access to the entries that are created for it
	if g.random.IntN(6) == 0 && len(g.of.all("credential")) > 0 && m.FullName() != watch {
		op.credential = g.word("credential")
	}
	if m.ParentFile().Package() == "openparallax.v1" {
		op.header = append(op.header, "x-capability-id", g.word("engine"))
		return op
	}
	for _, h := range []struct {
		name   string
		chance int
	}{{"x-capability-id", 2}, {"x-session-id", 6}, {"x-approval-id", 6}, {"x-user-id", 4}, {"x-agent-id", 6},
		{"x-tenant-id", 8}} {
		if h.name == "x-capability-id" && strings.Contains(op.request, `"capability_id"`) {
			h.chance = 12 // they would rarely agree
		}
		if g.random.IntN(h.chance) == 0 {
			kind := strings.ReplaceAll(strings.TrimPrefix(h.name, "x-"), "-", "_")
			op.header = append(op.header, h.name, g.word(kind))
		}
	}
	return op
}

func httpRule(m protoreflect.MethodDescriptor) *annotations.HttpRule {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	return rule
}

const watch = "capgate.v1.Approvals.WatchApprovals"

func hasJSON(m protoreflect.MethodDescriptor) bool {
	return httpRule(m) != nil || m.FullName() == watch
}

func onlyJSON(m protoreflect.MethodDescriptor) bool {
	return m.Parent().FullName() == "capgate.v1.Gateway" || m.Parent().FullName() == "capgate.v1.Engines"
}

// message generates a message in JSON.
func (g *generator) message(d protoreflect.MessageDescriptor) map[string]any {
	made := map[string]any{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if one := f.ContainingOneof(); one != nil && len(made) > 0 ||
			g.random.IntN(4) == 0 && (f.Name() != "tenant_id" || g.random.IntN(4) == 0) {
			continue
		}
		made[string(f.Name())] = g.value(f)
	}
	return made
}

// arguments returns arguments that sometimes name an artifact. In bytes it is another tenant's, since the sender's
// own has another id in each deployment.
func (g *generator) arguments() map[string]any {
	args := map[string]any{"n": g.random.IntN(3), "said": g.canary}
	if theirs := g.theirs.all("artifact"); g.random.IntN(4) == 0 && len(theirs) > 0 {
		args["capability_artifact_id"] = theirs[g.random.IntN(len(theirs))]
	}
	return args
}

// wellKnown has values of messages with a special form in JSON.
var wellKnown = map[protoreflect.FullName]any{
	"google.protobuf.Timestamp": "2099-01-01T00:00:00Z", "google.protobuf.Duration": "3600s",
	"google.protobuf.FieldMask": "name,limits",
}

// fullName returns the name of a field's message; "" for other fields.
func fullName(f protoreflect.FieldDescriptor) protoreflect.FullName {
	if f.Message() == nil {
		return ""
	}
	return f.Message().FullName()
}

func (g *generator) value(f protoreflect.FieldDescriptor) any {
	if known, ok := wellKnown[fullName(f)]; ok {
		return known
	}
	switch {
	case f.IsList() && f.Kind() == protoreflect.StringKind:
		return []string{g.word(nameOf(f))}
	case f.IsList():
		return []any{g.message(f.Message())}
	case f.FullName() == "capgate.selu.legacy.InvokeRequest.context":
		said := map[string]string{}
		for _, name := range []string{"capability_id", "session_id", "user_id", "thread_id"} {
			if g.random.IntN(3) > 0 {
				said[name] = g.word(name)
			}
		}
		return said
	case f.IsMap():
		g.t.Fatalf("say here what to put into %s", f.FullName())
	case f.Message() != nil && f.Message().FullName() == "google.protobuf.Struct":
		return g.arguments()
	case f.Message() != nil:
		return g.message(f.Message())
	case f.Kind() == protoreflect.BytesKind:
		args, err := json.Marshal(g.arguments())
		check.Must(g.t, err)
		return base64.StdEncoding.EncodeToString(args)
	case f.Kind() == protoreflect.Int32Kind, f.Kind() == protoreflect.Int64Kind:
		return g.random.IntN(4) - g.random.IntN(8)/7 // rarely less than 0
	case f.Kind() == protoreflect.EnumKind:
		return g.random.IntN(4)
	case f.Kind() == protoreflect.BoolKind:
		return g.random.IntN(2) == 0
	case f.Kind() == protoreflect.StringKind:
		return g.word(nameOf(f))
	}
	g.t.Fatalf("say here what to put into %s", f.FullName())
	return nil
}

// nameOf returns the name of a field in words.
func nameOf(f protoreflect.FieldDescriptor) string {
	if _, ok := words[string(f.FullName())]; ok {
		return string(f.FullName())
	}
	return string(f.Name())
}

// words has values for fields and metadata by name; ⟦kind⟧ is an id of that kind: the tenant's own, or
// another's if the kind is in «kind».
var words = map[string][]string{
	"capability_id": {"caps", "people", "people", "hidden", "mine", "absent", ""},
	"capability":    {"caps", "people", "hidden", ""},
	"tool_name":     {"echo", "echo", "fail", "break", "nope", ""},
	"tool":          {"echo", "fail", ""},
	"tenant":        {"", "", "acme", "globex", "default"},
	"tenant_id":     {"acme", "globex", "-"},
	"user":          {"", "ann", "bob"},
	"user_id":       {"ann", "bob"},
	"agent":         {"", "bot"},
	"agent_id":      {"bot"},
	"session_id":    {"", "s1", "s2", "discovery-caps"},
	"thread_id":     {"", "s1"},
	"parameters":    {`{"a":1}`, `{"a":2}`, ""}, // of the legacy dialect
	"approval_id":   {"⟦approval⟧", "⟦approval⟧", "«approval»", "x", ""},
	"page_token":    {"", "", "", "⟦token⟧", "⟦token⟧", "«token»", "«place»", "x"},
	"state":         {"", "pending", "used", "x"}, "outcome": {"", "approved", "x"}, "answered_by": {"", "k"},
	"order": {"", "", "x"}, "query": {"", "", "s1", "of-acme"}, // part of no random id, which differ
	"by":            {"", "ann"},
	"comment":       {"", "well"},
	"remember":      {"", "call", "session"},
	"last_event_id": {"", "0", "⟦event⟧"}, // another tenant's is a time, which differs between deployments
	"artifact_id":   {"⟦artifact⟧", "«artifact»", "«artifact»", "x"},

	"capability_artifact_id": {"⟦artifact⟧", "«artifact»", "x"},
	"filename":               {"a.txt", "refused.txt"},
	"ttl":                    {"", "10m", "2h", "x"},
	"mime_type":              {"text/plain"},

	// of tenants and keys
	"id":           {"acme", "globex", "x", ""},
	"key_id":       {"⟦key⟧", "⟦key⟧", "⟦key⟧", "«key»", "abcdefghijklmnop", ""},
	"credential":   {"⟦credential⟧"},
	"name":         {"", "a name"},
	"capabilities": {"*", "hidden", "["},
	"scopes":       {"invoke", "read", "admin", "x"},
	"asserts":      {"user", "agent", "x"},
	"per":          {"user", "x"},
	"etag":         {"", "x"},
	"source":       {"", "file"},
	"created_by":   {""}, "replaces": {""},
	"replaced_by": {""},

	"capgate.v1.Key.id":                     {"", "", "", "", "x"}, // another is created with it
	"capgate.v1.CreateKeyRequest.tenant_id": ofOwn,
	"capgate.v1.RotateKeyRequest.tenant_id": ofOwn,
	"capgate.v1.RevokeKeyRequest.tenant_id": ofOwn,
	"capgate.v1.ListKeysRequest.tenant_id":  ofOwn,
	"capgate.v1.ListKeysRequest.page_token": {"", "", "⟦place⟧", "⟦place⟧", "⟦token⟧", "«place»", "«token»", "x"},

	"resource_name": {"", "tenants/acme", "tenants/globex/keys/x"},
	"updated_by":    {"", "ann"},

	// of engines
	"engine": {"engine", "engine", "engine", "engine", "engine", "hidden-engine", "hidden-engine", "hidden", "mine",
		"absent", ""},
	"content": {"hello", "hello", "hello", ""},
	"mode":    {"", "", "NORMAL", "OTR", "otr"},

	// of openparallax.v1
	"token":               {"x"},
	"call_id":             {"x"},
	"message_id":          {"x"},
	"arguments_json":      {"{}"},
	"tool_args_json":      {"{}"},
	"payload_json":        {"{}"},
	"sandbox_canary_json": {"{}"},
	"detail_json":         {"{}"},
	"action_type":         {"x"},
	"result":              {"x"},
	"error":               {"x"},
	"text":                {"s1"},
	"groups":              {"x"},
	"stage":               {"x"},
	"summary":             {"x"},
	"code":                {"x"},
	"message":             {"x"},

	// of grpc.health.v1 and grpc.reflection
	"service":                       {"", "capgate.v1.Catalog", "hidden", "caps"},
	"host":                          {"", "hidden.caps.test"},
	"file_by_filename":              {"proto/capgate/v1/catalog.proto", "hidden"},
	"file_containing_symbol":        {"capgate.v1.Catalog", "p.Hidden"},
	"containing_type":               {"capgate.v1.Tool"},
	"all_extension_numbers_of_type": {"capgate.v1.Tool"},
	"list_services":                 {""},
}

// ofOwn are mostly the tenant itself.
var ofOwn = []string{"-", "-", "-", "acme", "globex"}

func (g *generator) word(field string) string {
	known, ok := words[field]
	if !ok {
		g.t.Fatalf("say in words what to put into fields %s", field)
	}
	if g.always && field == "remember" {
		known = append([]string{"always"}, known...)
	}
	word := known[g.random.IntN(len(known))]
	if kind, ok := strings.CutPrefix(word, "«"); ok {
		kind = strings.TrimSuffix(kind, "»")
		own := g.of.all(kind)
		// that they had received
		theirs := slices.DeleteFunc(g.theirs.all(kind),
			func(id string) bool { return slices.Contains(own, id) || tellsTime(id) })
		if len(theirs) > 0 {
			return theirs[g.random.IntN(len(theirs))]
		}
		return "y"
	}
	if kind, ok := strings.CutPrefix(word, "⟦"); ok {
		kind = strings.TrimSuffix(kind, "⟧")
		if own := g.of.all(kind); len(own) > 0 {
			return fmt.Sprintf("⟦%s:%d⟧", kind, g.random.IntN(len(own)))
		}
		return "z"
	}
	return word
}
