package grpcservice

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// Definitions are the tools of a service. They are immutable.
type Definitions struct {
	tools  map[string]*tool
	listed []byte // as the answer of the discovery tool
}

// tool is a method.
type tool struct {
	method protoreflect.MethodDescriptor
	path   string // as in :path
	schema *toolschema.Schema
	types  *types
}

// define makes the tools of the methods that the configuration lists. Each problem is of one method or service, which
// has no tool for it; the others are not affected.
func define(ctx context.Context, files *protoregistry.Files, methods []string, names ToolNames) (*Definitions, []error) {
	d := &definer{files: files, names: names, types: newTypes(files), seen: map[protoreflect.FullName]bool{},
		tools: map[string]*tool{}, taken: map[string]string{},
		inputs:  budget{ctx: ctx, left: manifest.MaxBytes, empty: errSchemas},
		outputs: budget{ctx: ctx, left: manifest.MaxBytes, empty: errSchemas},
		failed:  budget{ctx: ctx, left: maxFailed, empty: errSchemas}}
	for _, entry := range methods {
		service, method, _ := strings.Cut(entry, "/")
		err := d.entry(service, method)
		if err != nil {
			d.problems = append(d.problems, fmt.Errorf("%s %w", entry, err))
		}
		if d.stopped != nil {
			return nil, append([]error{d.stopped}, d.problems...)
		}
	}
	if d.outputs.err() != nil { // the tools work without the schemas of their results
		for i := range d.found {
			d.found[i].Output = nil
		}
	}
	found, err := d.compile(ctx)
	if err != nil {
		return nil, append([]error{err}, d.problems...)
	}
	listed, err := plainjson.Marshal(found)
	if err == nil && len(listed) > manifest.MaxBytes {
		for i := range found {
			found[i].Output = nil
		}
		listed, err = plainjson.Marshal(found)
	}
	if err == nil && len(listed) > manifest.MaxBytes {
		err = errSchemas
	}
	if err != nil {
		return nil, append(d.problems, err)
	}
	if len(found) == 0 {
		return nil, append(d.problems, errors.New("the list of methods makes no tool"))
	}
	return &Definitions{tools: d.tools, listed: listed}, d.problems
}

// compile compiles the schemas, whose size is known, and returns the tools that have them.
func (d *definer) compile(ctx context.Context) (found []upstream.Discovered, _ error) {
	for i := range d.found {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		one := d.found[i]
		t := d.tools[one.Name]
		if t == nil { // another method has this name
			continue
		}
		bare := one
		bare.Output = nil
		checked, err := upstream.Check(bare)
		if err != nil {
			d.problems = append(d.problems, fmt.Errorf("%s cannot be a tool: %w", t.path[1:], err))
			delete(d.tools, one.Name)
			continue
		}
		t.schema = checked.Schema
		if _, err := toolschema.Compile(one.Output); err != nil { // the tool works without it
			one.Output = nil
		}
		found = append(found, one)
	}
	return found, nil
}

// definer makes Definitions.
type definer struct {
	files    *protoregistry.Files
	names    ToolNames
	types    *types
	seen     map[protoreflect.FullName]bool // methods
	tools    map[string]*tool
	found    []upstream.Discovered
	taken    map[string]string // names, and the method that had it first
	problems []error
	inputs   budget // bytes of schemas of arguments
	outputs  budget // of schemas of arguments and results; if it is empty, no tool has a schema of its result
	failed   budget // of schemas that are too large
	stopped  error  // no other method may be looked at
}

// maxFailed is how many bytes of schemas are built that turn out to be too large.
const maxFailed = 64 << 20

var (
	errSchemas         = fmt.Errorf("the schemas of the methods have more than %d bytes together", manifest.MaxBytes)
	errNoService       = errors.New("is not in the descriptors: they have no such service")
	errNoMethod        = errors.New("is not in the descriptors: its service has no such method")
	errClientStreaming = errors.New("has client streaming, and a tool gets its arguments at once; remove it from methods")
	errNoTool          = errors.New("has no method that can be a tool: all have client streaming")
)

// entry makes the tools of one entry of the list of methods.
func (d *definer) entry(service, method string) error {
	found, err := d.files.FindDescriptorByName(protoreflect.FullName(service))
	s, is := found.(protoreflect.ServiceDescriptor)
	if err != nil || !is {
		return errNoService
	}
	if method != "*" {
		m := s.Methods().ByName(protoreflect.Name(method))
		switch {
		case m == nil:
			return errNoMethod
		case m.IsStreamingClient():
			return errClientStreaming
		}
		return d.add(m)
	}
	usable := 0
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		if m.IsStreamingClient() {
			continue
		}
		usable++
		if err := d.add(m); err != nil {
			d.problems = append(d.problems, fmt.Errorf("%s/%s %w", service, m.Name(), err))
		}
		if d.stopped != nil {
			return nil
		}
	}
	if usable == 0 {
		return errNoTool
	}
	return nil
}

// add makes the tool of a method. Of methods with the same name none becomes a tool: their order must not decide what
// an agent calls.
func (d *definer) add(m protoreflect.MethodDescriptor) error {
	if d.seen[m.FullName()] {
		return nil
	}
	d.seen[m.FullName()] = true
	service := string(m.Parent().FullName())
	name, path := d.names.name(service, string(m.Name())), service+"/"+string(m.Name())
	if other := d.taken[name]; other != "" {
		delete(d.tools, name)
		return collision(name, other, d.names)
	}
	d.taken[name] = path
	if name == upstream.DiscoveryTool { // cannot be, as it has a slash
		return errors.New("has a reserved name")
	}
	schema, err := schemaOf(m.Input(), &d.failed)
	if err != nil {
		if d.stopped = d.failed.err(); d.stopped != nil {
			return nil
		}
		return fmt.Errorf("cannot be a tool: its schema %w", err)
	}
	if d.stopped = d.inputs.take(len(schema)); d.stopped != nil {
		return nil
	}
	one := upstream.Discovered{Name: name, Description: describe(m, path), Schema: schema}
	if d.outputs.take(len(schema)) == nil {
		if one.Output, err = outputOf(m, &d.failed); err == nil {
			_ = d.outputs.take(len(one.Output))
		}
		if d.stopped = d.failed.err(); d.stopped != nil {
			return nil
		}
	}
	d.tools[name] = &tool{method: m, path: "/" + path, types: d.types}
	if d.found = append(d.found, one); len(d.found) > manifest.MaxTools {
		d.stopped = fmt.Errorf("more than %d methods are too many; a fleet may have at most %d tools", manifest.MaxTools,
			manifest.MaxTools)
	}
	return nil
}

// collision is the error of two methods whose tools have one name.
func collision(name, other string, names ToolNames) error {
	hint := "; tool_names: service has another name for each"
	switch names {
	case ByService:
		hint = "; tool_names: package has another name for each"
	case ByPackage:
		hint = "; remove one of the two"
	}
	return fmt.Errorf("has the tool name %s, as %s has%s", name, other, hint)
}

// CheckMethods reports an empty list of methods, and methods that are listed by name and whose tools have the same
// name. Methods that stand for all of a service are known with the descriptors.
func CheckMethods(methods []string, names ToolNames) (problems []error) {
	if len(methods) == 0 {
		return []error{errors.New("methods: lists no method, so there would be no tool; write package.Service/Method")}
	}
	taken := map[string]string{}
	for _, entry := range methods {
		service, method, _ := strings.Cut(entry, "/")
		if method == "*" {
			continue
		}
		name := names.name(service, method)
		if other := taken[name]; other != "" {
			problems = append(problems, fmt.Errorf("%s %w", entry, collision(name, other, names)))
			continue
		}
		taken[name] = entry
	}
	return problems
}

// maxComment is how many bytes of a comment go into a description.
const maxComment = 4 << 10

// describe returns the description of a method: its comment, if the descriptors have it.
func describe(m protoreflect.MethodDescriptor, path string) string {
	text := commentOf(m)
	if text == "" {
		text = "Calls " + path + "."
	}
	if m.IsStreamingServer() {
		text += "\n\nThe result is a list: one item for each message of the stream."
	}
	return text
}

// commentOf returns the comment of a descriptor; "": it has none.
func commentOf(d protoreflect.Descriptor) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	text := strings.TrimSpace(at.LeadingComments)
	if text == "" {
		text = strings.TrimSpace(at.TrailingComments)
	}
	lines := strings.Split(upstream.Clip(text, maxComment), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
