package grpcservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// descriptors holds the files of a backend or of a descriptor file, and those that could not be read.
type descriptors struct {
	files  []*descriptorpb.FileDescriptorProto // distinct names
	broken map[string]error                    // unusable files by name; the errors follow "which"
	asked  map[string]symbol                   // services requested from a backend
}

// symbol is the response of server reflection for a service.
type symbol struct {
	file string // file with the service; empty means unknown
	err  error  // why there is no file; follows the name of the service
}

// flaw is the reason why a file cannot be used.
type flaw struct {
	file  string // file that has the flaw; may be an import of the file
	cause error
}

// Error implements error.
func (f *flaw) Error() string { return fmt.Sprintf("%.100q, which %v", f.file, f.cause) }

// Unwrap returns the cause.
func (f *flaw) Unwrap() error { return f.cause }

// of returns the flaw as the continuation of `the file "…", which`.
func (f *flaw) of(file string) error {
	if f.file == file {
		return f.cause
	}
	return fmt.Errorf("needs %w", f)
}

// linked is a set of consistent descriptors. A flaw of a file only affects files that import it.
type linked struct {
	found   *descriptors
	sources map[string]*descriptorpb.FileDescriptorProto
	own     []string         // sources from this program
	broken  map[string]*flaw // by file
	groups  []*group
}

// group is a set of files with distinct names of elements. Most descriptors form one group.
type group struct {
	all     *linked
	files   *protoregistry.Files
	types   *types
	linking map[string]bool  // files whose imports are being linked
	others  map[string]*flaw // files with conflicting names
}

// maxGroups is the maximum number of groups.
const maxGroups = 4

// errConflict is returned for a file that declares a name of another file of the group.
var errConflict = errors.New("has a name that another file also has")

// link links descriptors. Those of the well-known types are taken from this program, because their JSON form depends
// on their fields. The error is that of ctx.
func link(ctx context.Context, d *descriptors) (*linked, error) {
	l := &linked{found: d, sources: map[string]*descriptorpb.FileDescriptorProto{}, broken: map[string]*flaw{}}
	for name, err := range d.broken {
		l.broken[name] = &flaw{name, err}
	}
	for _, file := range d.files {
		l.sources[file.GetName()] = file
	}
	for _, file := range d.files { // imports of files that are known here may be absent
		for _, name := range append(file.GetDependency(), file.GetName()) {
			l.addOwn(name)
		}
	}
	if err := l.weigh(ctx); err != nil {
		return nil, err
	}
	rest := slices.Sorted(maps.Keys(l.sources))
	for len(rest) > 0 && len(l.groups) < maxGroups {
		var err error
		if rest, err = l.group(ctx, rest); err != nil {
			return nil, err
		}
	}
	for _, name := range rest {
		l.broken[name] = &flaw{name, errConflict}
	}
	return l, nil
}

// addOwn adds a file of this program, if the name is that of one, and its imports.
func (l *linked) addOwn(name string) {
	if slices.Contains(l.own, name) {
		return
	}
	own := ownFile(name)
	if own == nil {
		return
	}
	l.own, l.sources[name] = append(l.own, name), own
	delete(l.broken, name)
	for _, imported := range own.GetDependency() {
		l.addOwn(imported)
	}
}

// group creates a group of the files, and returns those that conflict with it.
func (l *linked) group(ctx context.Context, names []string) (rest []string, _ error) {
	g := &group{all: l, files: &protoregistry.Files{}, linking: map[string]bool{},
		others: map[string]*flaw{}}
	l.groups = append(l.groups, g)
	for _, name := range l.own { // other files must not use their names
		_ = g.add(name) // they are consistent
	}
	first := true
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := g.add(name)
		switch {
		case err == nil:
			first = false
		case errors.Is(err, errConflict) && first: // conflict with a file that it imports
			l.broken[name] = err
		case errors.Is(err, errConflict) && l.broken[name] == nil:
			rest = append(rest, name)
		}
	}
	g.types = newTypes(g.files)
	return rest, nil
}

// add links a file after its imports.
func (g *group) add(name string) *flaw {
	if err := cmp.Or(g.all.broken[name], g.others[name]); err != nil {
		return err
	}
	source := g.all.sources[name]
	if _, err := g.files.FindFileByPath(name); err == nil {
		return nil
	}
	if source == nil {
		return g.breaks(name, &flaw{name, errors.New("is missing; all imports must be included")})
	}
	if g.linking[name] {
		return &flaw{name, errors.New(unfit + "it imports itself")}
	}
	g.linking[name] = true
	defer delete(g.linking, name)
	absent := map[string]bool{} // weak imports
	for i, imported := range source.GetDependency() {
		err := g.add(imported)
		switch {
		case err == nil:
		case errors.Is(err, errConflict):
			g.others[name] = err
			return err
		case slices.Contains(source.GetWeakDependency(), int32(i)): //nolint:gosec // there are at most 2000
			absent[imported] = true
		default:
			return g.breaks(name, err)
		}
	}
	return g.register(name, source, absent)
}

// breaks records a flaw.
func (g *group) breaks(name string, f *flaw) *flaw {
	g.all.broken[name] = f
	return f
}

// unfit is the prefix of the cause of a file that cannot be linked.
const unfit = "has inconsistent descriptors: "

// register links a file whose imports are linked.
func (g *group) register(name string, source *descriptorpb.FileDescriptorProto, absent map[string]bool) *flaw {
	var file protoreflect.FileDescriptor
	err := recovery.Do("descriptors", func() (err error) {
		file, err = protodesc.NewFile(source, resolver{g.files, absent})
		return err
	})
	switch {
	case err != nil:
		text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
		return g.breaks(name, &flaw{name, errors.New(unfit + untrusted.Clip(text, maxText))})
	case !slices.Contains(g.all.own, name) && imitates(file.Messages(), file.Enums()):
		return g.breaks(name, &flaw{name, errors.New("has types of " + wellKnownPackage +
			", and is not a file of protobuf")})
	case g.files.RegisterFile(file) != nil:
		g.others[name] = &flaw{name, errConflict}
		return g.others[name]
	}
	return nil
}

// resolver resolves the imports of a file. Absent weak imports are empty files.
type resolver struct {
	*protoregistry.Files
	absent map[string]bool
}

// FindFileByPath implements protodesc.Resolver.
func (r resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if r.absent[path] {
		return protodesc.NewFile(&descriptorpb.FileDescriptorProto{Name: &path}, nil)
	}
	return r.Files.FindFileByPath(path)
}

// service returns a service, with the types of its messages. The error is the reason why it cannot be used; it follows
// the name.
func (l *linked) service(name string) (found protoreflect.ServiceDescriptor, of *types, _ error) {
	for _, g := range l.groups {
		d, _ := g.files.FindDescriptorByName(protoreflect.FullName(name))
		s, is := d.(protoreflect.ServiceDescriptor)
		switch {
		case !is:
		case found == nil:
			found, of = s, g.types
		// the order of files must not decide what an agent calls
		case found.ParentFile().Path() != s.ParentFile().Path():
			return nil, nil, fmt.Errorf("is in two files, %.100q and %.100q; neither is used",
				found.ParentFile().Path(), s.ParentFile().Path())
		}
	}
	if found == nil {
		return nil, nil, l.whyNot(name)
	}
	return found, of, nil
}

// whyNot returns the reason why a service is missing.
func (l *linked) whyNot(name string) error {
	asked := l.found.asked[name]
	if asked.err != nil {
		return asked.err
	}
	for _, file := range slices.Sorted(maps.Keys(l.broken)) {
		if file == asked.file || declares(l.sources[file], name) {
			return fmt.Errorf("is in the file %.100q, which %w", file, l.broken[file].of(file))
		}
	}
	return errNoService
}

// declares reports whether a file declares a service.
func declares(file *descriptorpb.FileDescriptorProto, service string) bool {
	return slices.ContainsFunc(file.GetService(), func(s *descriptorpb.ServiceDescriptorProto) bool {
		return fullName(file, s) == service
	})
}

// fullName returns the full name of a service in a file.
func fullName(file *descriptorpb.FileDescriptorProto, s *descriptorpb.ServiceDescriptorProto) string {
	return strings.TrimPrefix(file.GetPackage()+"."+s.GetName(), ".")
}
