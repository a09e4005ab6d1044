package grpcservice

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/capgate/capgate/gateway/upstream"
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
func define(files *protoregistry.Files, methods []string, names ToolNames) (*Definitions, []error) {
	d := &definer{files: files, names: names, types: newTypes(files), seen: map[protoreflect.FullName]bool{},
		tools: map[string]*tool{}, taken: map[string]string{}}
	for _, entry := range methods {
		service, method, _ := strings.Cut(entry, "/")
		if err := d.entry(service, method); err != nil {
			d.problems = append(d.problems, fmt.Errorf("%s %w", entry, err))
		}
	}
	if len(d.tools) > manifest.MaxTools {
		return nil, append(d.problems, fmt.Errorf("%d methods are too many; a fleet may have at most %d tools",
			len(d.tools), manifest.MaxTools))
	}
	var found []upstream.Discovered
	for _, f := range d.found {
		if d.tools[f.Name] != nil {
			found = append(found, f)
		}
	}
	listed, err := upstream.Encode(found)
	if err == nil && len(listed) > manifest.MaxBytes { // the tools work without the schemas of their results
		for i := range found {
			found[i].Output = nil
		}
		listed, err = upstream.Encode(found)
	}
	if err == nil && len(listed) > manifest.MaxBytes {
		err = fmt.Errorf("the schemas of the methods have %d bytes together; at most %d are allowed", len(listed),
			manifest.MaxBytes)
	}
	if err != nil {
		return nil, append(d.problems, err)
	}
	if len(found) == 0 {
		return nil, append(d.problems, errors.New("the list of methods makes no tool"))
	}
	return &Definitions{tools: d.tools, listed: listed}, d.problems
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
}

var (
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
	schema, err := schemaOf(m.Input())
	if err != nil {
		return fmt.Errorf("cannot be a tool: its schema %w", err)
	}
	one := upstream.Discovered{Name: name, Description: describe(m, path), Schema: schema}
	tools, err := upstream.Check(one)
	if err != nil {
		return fmt.Errorf("cannot be a tool: %w", err)
	}
	d.tools[name] = &tool{method: m, path: "/" + path, schema: tools.Schema, types: d.types}
	if output, err := outputOf(m); err == nil {
		with := one
		with.Output = output
		if _, err = upstream.Check(with); err == nil { // the tool works without it
			one = with
		}
	}
	d.found = append(d.found, one)
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
