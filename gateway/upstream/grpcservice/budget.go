package grpcservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	maxDecoded = 64 << 20 // approximate maximum memory of decoded descriptors, in bytes
	maxLinked  = 64 << 20 // approximate maximum memory, and compared bytes, of linked descriptors
	maxNesting = 64       // maximum nesting of messages in messages
	maxImports = 200_000  // visits of public imports

	perMessage = 1 << 10 // approximate memory of a linked message or service, in bytes
	perElement = 1 << 8  // approximate memory of another linked element, in bytes
	checkEvery = 1 << 16 // units of a budget between two checks of the context
)

var (
	errCostly  = errors.New("is too large: its names, messages and fields together exceed the limit")
	errImports = errors.New("has too many paths of public imports")
)

// budget limits work in advance, and ends with its context.
type budget struct {
	ctx   context.Context //nolint:containedctx // of one discovery, like the budget
	left  int
	since int // units since the last check of the context
	empty error
}

// take takes units from the budget. The error is that of the context, or of an exhausted budget.
func (b *budget) take(n int) error {
	if b.left -= n; b.left < 0 || n < 0 {
		return b.empty
	}
	if b.since += n; b.since < checkEvery {
		return nil
	}
	b.since = 0
	return b.ctx.Err()
}

// err returns the error of an exhausted budget, or of its context.
func (b *budget) err() error {
	if b.left < 0 {
		return b.empty
	}
	return b.ctx.Err()
}

// weigh limits the cost of linking files: each element has a full name, which contains the names of all enclosing
// elements, and relative names are looked up in each of them. The most expensive files are omitted. The error is that
// of ctx.
func (l *linked) weigh(ctx context.Context) error {
	type cost struct {
		name          string
		units, visits int
	}
	var costs []cost
	visits := countImports(l.sources)
	for name, f := range l.sources {
		if slices.Contains(l.own, name) || l.broken[name] != nil {
			continue
		}
		w := &weight{budget{ctx: ctx, left: maxLinked, empty: errCostly}}
		err := w.file(f)
		if err == nil && visits[name] > maxImports {
			err = errImports
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			l.broken[name] = &flaw{name, err}
		default:
			costs = append(costs, cost{name, maxLinked - w.left, visits[name]})
		}
	}
	slices.SortFunc(costs, func(a, b cost) int {
		return cmp.Or(cmp.Compare(a.units, b.units), cmp.Compare(a.visits, b.visits), cmp.Compare(a.name, b.name))
	})
	units, paths := maxLinked, maxImports
	for _, c := range costs {
		switch {
		case c.units > units:
			l.broken[c.name] = &flaw{c.name, errCostly}
		case c.visits > paths:
			l.broken[c.name] = &flaw{c.name, errImports}
		default:
			units, paths = units-c.units, paths-c.visits
		}
	}
	return nil
}

// weight computes the cost of files.
type weight struct{ budget }

func (w *weight) file(f *descriptorpb.FileDescriptorProto) error {
	size := len(f.GetPackage())
	err := w.take(perMessage + len(f.GetName()) + size*(1+strings.Count(f.GetPackage(), ".")))
	for _, m := range f.GetMessageType() {
		if err == nil {
			err = w.message(m, size, 0)
		}
	}
	for _, e := range f.GetEnumType() {
		if err == nil {
			err = w.enum(e, size)
		}
	}
	for _, s := range f.GetService() {
		if err == nil {
			err = w.service(s, size)
		}
	}
	if err != nil {
		return err
	}
	return w.fields(f.GetExtension(), size)
}

func (w *weight) service(s *descriptorpb.ServiceDescriptorProto, size int) error {
	if err := w.take(perMessage + size + len(s.GetName())); err != nil {
		return err
	}
	for _, m := range s.GetMethod() {
		if err := w.element(m.GetName(), size+len(s.GetName()), m.GetInputType(), m.GetOutputType()); err != nil {
			return err
		}
	}
	return nil
}

// message adds the cost of a message in a scope whose name has size bytes.
func (w *weight) message(m *descriptorpb.DescriptorProto, size, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("has messages that are nested deeper than %d levels", maxNesting)
	}
	if err := w.take(perMessage + size + len(m.GetName())); err != nil {
		return err
	}
	size += 1 + len(m.GetName())
	for _, one := range m.GetNestedType() {
		if err := w.message(one, size, depth+1); err != nil {
			return err
		}
	}
	for _, e := range m.GetEnumType() {
		if err := w.enum(e, size); err != nil {
			return err
		}
	}
	for _, o := range m.GetOneofDecl() {
		if err := w.element(o.GetName(), size); err != nil {
			return err
		}
	}
	if err := w.take(perElement * (len(m.GetReservedRange()) + len(m.GetExtensionRange()))); err != nil {
		return err
	}
	if err := w.fields(m.GetExtension(), size); err != nil {
		return err
	}
	return w.fields(m.GetField(), size)
}

func (w *weight) fields(all []*descriptorpb.FieldDescriptorProto, size int) error {
	for _, f := range all {
		if err := w.element(f.GetName(), size, f.GetTypeName(), f.GetExtendee()); err != nil {
			return err
		}
	}
	return nil
}

func (w *weight) enum(e *descriptorpb.EnumDescriptorProto, size int) error {
	if err := w.take(perMessage + size + len(e.GetName())); err != nil {
		return err
	}
	for _, v := range e.GetValue() {
		if err := w.element(v.GetName(), size); err != nil {
			return err
		}
	}
	return w.take(perElement * len(e.GetReservedRange()))
}

// element adds the cost of an element with a name, and names of types that it refers to.
func (w *weight) element(name string, size int, types ...string) error {
	n := perElement + size + len(name)
	for _, t := range types {
		n += len(t)
		if t != "" && t[0] != '.' { // at most one scope for every two bytes
			n += (size/2 + 1) * (size + len(t))
		}
	}
	return w.take(n)
}

// countImports returns, for each file, the number of visits of public imports: one for each path to a file.
func countImports(files map[string]*descriptorpb.FileDescriptorProto) (visits map[string]int) {
	// for a file's public imports; a file in progress has none, because it is part of a cycle
	public := map[string]int{}
	var count func(string) int
	count = func(name string) int {
		if n, known := public[name]; known {
			return n
		}
		public[name] = 0
		n, f := 0, files[name]
		for _, i := range f.GetPublicDependency() {
			if all := f.GetDependency(); i >= 0 && int(i) < len(all) {
				n = min(n+1+count(all[i]), maxImports+1)
			}
		}
		public[name] = n
		return n
	}
	visits = make(map[string]int, len(files))
	for file, f := range files {
		for _, name := range f.GetDependency() {
			visits[file] = min(visits[file]+1+count(name), maxImports+1)
		}
	}
	return visits
}
