package grpcservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// Definitions are the tools of a service. They are immutable.
type Definitions struct {
	tools   map[string]*tool
	listed  []byte  // in the form of the discovery tool's response
	leftOut []error // why methods have no tool
	logged  sync.Once
}

// tool is a method as a tool.
type tool struct {
	method protoreflect.MethodDescriptor
	path   string // as in :path
	schema *toolschema.Schema
	types  *types
}

// problems lists why methods have no tool. Other methods are not affected.
type problems struct {
	mistakes []error // errors in the list of methods
	leftOut  []error // methods of a service listed as a whole
}

// all returns all problems, mistakes first.
func (p *problems) all() []error { return slices.Concat(p.mistakes, p.leftOut) }

// mistake adds an error in the list of methods.
func (p *problems) mistake(err error) *problems {
	p.mistakes = append(p.mistakes, err)
	return p
}

// define returns the tools of the methods listed in the configuration. An entry of the list that exceeds the maximum
// number of methods has no tools.
func define(ctx context.Context, files *linked, methods []string, names ToolNames) (*Definitions, *problems) {
	d := &definer{files: files, names: names, named: map[string]bool{},
		failed: budget{ctx: ctx, left: maxFailed, empty: errSchemas},
		made: made{seen: map[protoreflect.FullName]bool{}, tools: map[string]*tool{}, taken: map[string]string{},
			inputs:  budget{ctx: ctx, left: manifest.MaxBytes, empty: errSchemas},
			outputs: budget{ctx: ctx, left: manifest.MaxBytes, empty: errSchemas}}}
	for _, entry := range methods {
		d.named[entry] = true
	}
	for _, entry := range methods {
		service, method, _ := strings.Cut(entry, "/")
		before := d.clone()
		err := d.entry(service, method)
		if ctx.Err() != nil {
			return nil, d.mistake(ctx.Err())
		}
		if d.stopped != nil {
			d.made, d.stopped = before, nil
		}
		if err != nil {
			d.mistake(fmt.Errorf("%s %w", entry, err))
		}
	}
	if d.outputs.err() != nil { // the tools work without the schemas of their results
		for i := range d.found {
			d.found[i].Output = nil
		}
	}
	found, err := d.compile(ctx)
	if err != nil {
		return nil, d.mistake(err)
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
		return nil, d.mistake(err)
	}
	if len(found) == 0 {
		return nil, d.mistake(errors.New("none of the listed methods can be a tool"))
	}
	return &Definitions{tools: d.tools, listed: listed, leftOut: d.all()}, &d.problems
}

// compile compiles the schemas, whose total size is limited, and returns the tools with valid ones.
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
			d.unusable(t.path[1:], fmt.Errorf("cannot be a tool: %w", err))
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

// definer creates Definitions.
type definer struct {
	problems
	made
	files   *linked
	names   ToolNames
	named   map[string]bool // entries of the list of methods
	failed  budget          // for schemas that are too large
	stopped error           // why the entry has no tools
}

// made holds the results of a definer for some entries.
type made struct {
	seen   map[protoreflect.FullName]bool // methods
	tools  map[string]*tool
	found  []upstream.Discovered
	taken  map[string]string // names, with the first method that used each
	inputs budget            // bytes of schemas of arguments
	// outputs limits the schemas of arguments and results; if it is exhausted, no tool has a schema of its result.
	outputs budget
}

// clone returns a copy.
func (m *made) clone() made {
	c := *m
	c.seen, c.tools, c.taken = maps.Clone(m.seen), maps.Clone(m.tools), maps.Clone(m.taken)
	return c
}

// unusable records a method that cannot be a tool. It is an error of the list if the method is listed by its name, or
// has the tool name of another one.
func (d *definer) unusable(path string, err error) {
	clash := &collision{}
	if is := errors.As(err, &clash); is || d.named[path] {
		d.mistake(fmt.Errorf("%s %w", path, err))
	} else {
		d.leftOut = append(d.leftOut, fmt.Errorf("%s %w", path, err))
	}
}

// maxFailed is the maximum number of bytes of schemas that are built before they prove too large.
const maxFailed = 64 << 20

var (
	errSchemas = fmt.Errorf("is left out: the schemas of the methods have more than %d bytes together",
		manifest.MaxBytes)
	errNoService       = errors.New("is not in the descriptors: they have no such service")
	errNoMethod        = errors.New("is not in the descriptors: its service has no such method")
	errClientStreaming = errors.New(
		"uses client streaming, which tools do not support; remove it from methods")
	errNoTool = errors.New("has no method that can be a tool: all use client streaming")
)

// entry creates the tools of one entry of the list of methods.
func (d *definer) entry(service, method string) error {
	s, types, err := d.files.service(service)
	if err != nil {
		return err
	}
	if method != "*" {
		m := s.Methods().ByName(protoreflect.Name(method))
		switch {
		case m == nil:
			return errNoMethod
		case m.IsStreamingClient():
			return errClientStreaming
		}
		return cmp.Or(d.add(m, types), d.stopped)
	}
	usable, made := 0, 0
	var first error
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		if m.IsStreamingClient() {
			continue
		}
		usable++
		err := d.add(m, types)
		switch {
		case d.stopped != nil:
			return d.stopped
		case err == nil:
			made++
			continue
		}
		first = cmp.Or(first, err)
		d.unusable(service+"/"+string(m.Name()), err)
	}
	switch {
	case usable == 0:
		return errNoTool
	case made == 0:
		return fmt.Errorf("has no method that can be a tool: the first %w", first)
	}
	return nil
}

// add creates the tool of a method. Methods with the same tool name are all excluded, so that their order does not
// decide what an agent calls.
func (d *definer) add(m protoreflect.MethodDescriptor, types *types) error {
	if d.seen[m.FullName()] {
		return nil
	}
	d.seen[m.FullName()] = true
	service := string(m.Parent().FullName())
	name, path := d.names.name(service, string(m.Name())), service+"/"+string(m.Name())
	if other := d.taken[name]; other != "" {
		delete(d.tools, name)
		return &collision{name, other, d.names}
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
	one := upstream.Discovered{Name: name, Description: describe(m, path), Schema: schema}
	if d.stopped = d.inputs.take(len(schema) + len(one.Description)); d.stopped != nil {
		return nil
	}
	if d.outputs.take(len(schema)) == nil {
		if one.Output, err = outputOf(m, &d.failed); err == nil {
			_ = d.outputs.take(len(one.Output))
		} else if d.stopped = d.failed.err(); d.stopped != nil {
			return nil
		}
	}
	d.tools[name] = &tool{method: m, path: "/" + path, types: types}
	if d.found = append(d.found, one); len(d.found) > manifest.MaxTools {
		d.stopped = fmt.Errorf("is left out: more than %d methods are too many; a fleet may have at most %d tools",
			manifest.MaxTools, manifest.MaxTools)
	}
	return nil
}

// collision is the error of two methods with the same tool name.
type collision struct {
	name, other string
	names       ToolNames
}

// Error implements error.
func (c *collision) Error() string {
	hint := "; tool_names: service has another name for each"
	switch c.names {
	case ByService:
		hint = "; tool_names: package has another name for each"
	case ByPackage:
		hint = "; remove one of the two"
	}
	return fmt.Sprintf("has the tool name %s, as %s has%s", c.name, c.other, hint)
}

// CheckMethods reports an empty list of methods, and methods listed by name that have the same tool name. Methods of
// services listed as a whole are only known with the descriptors.
func CheckMethods(methods []string, names ToolNames) (problems []error) {
	if len(methods) == 0 {
		return []error{errors.New("methods: no method is listed, so there would be no tool; write " +
			"package.Service/Method")}
	}
	taken := map[string]string{}
	for _, entry := range methods {
		service, method, _ := strings.Cut(entry, "/")
		if method == "*" {
			continue
		}
		name := names.name(service, method)
		if other := taken[name]; other != "" {
			problems = append(problems, fmt.Errorf("%s %w", entry, &collision{name, other, names}))
			continue
		}
		taken[name] = entry
	}
	return problems
}

// maxComment is the maximum number of bytes of a comment in a description.
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

// commentOf returns the comment of a descriptor; empty means none.
func commentOf(d protoreflect.Descriptor) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	text := strings.TrimSpace(at.LeadingComments)
	if text == "" {
		text = strings.TrimSpace(at.TrailingComments)
	}
	lines := strings.Split(untrusted.Clip(text, maxComment), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
