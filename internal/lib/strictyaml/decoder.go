package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Decoder reads a file into structs, as the tags of their fields say:
//
//	yaml:"name"      the field's name; without it the name in the tag json; "-": not a field of the file
//	yaml:",inline"   the fields of an embedded struct are fields of the outer one
//	yaml:",present"  a bool that is true if the file has the mapping
//	yaml:",extra"    the value of one of the fields of Extra
//	default:"5s"     the value without the field, as YAML
//	required:""      the field must be there; a word: unless one of the fields of this word in Alternatives is
//	min, max, above  bounds of a value, the length of a text in bytes, or the number of items of a list
//	enum:"a,b"       the only texts; a bool is true for the last one, another number is the index
//	true:"own"       the text for which a bool is true, in place of true or of the last word of enum
//	kind:"host"      the texts of a Kind of this name
//	scalar:""        a scalar in place of the mapping is the value of this field
//	unique:"true"    no two items of the list have the same value; another word: nor do any two fields with this word
//
// Without the field, a pointer is nil unless there is a default. A struct with the method Check checks its fields
// together.
type Decoder struct {
	Reader
	Types map[reflect.Type]*Kind // kinds of values by their Go type, besides bool, string, numbers and durations
	Kinds map[string]*Kind       // kinds of values by the tag kind
	Extra []Extra
	// Alternatives have the names of fields for the tag required.
	Alternatives map[string][]string
	Doc          func(path string) string // first sentence about a field, for an error; "": unknown

	structs map[reflect.Type]*structure
	unique  map[string]Place // first places of unique values
}

// Extra is a field that another package adds to structs with a field tagged yaml:",extra".
type Extra struct {
	Name string
	New  func() any // a pointer to a zero struct with tags
}

// Checker is a struct with fields that depend on each other.
type Checker interface {
	// Check records what is wrong with the fields that were read, and completes them.
	Check(at At)
}

// At is a mapping that was read.
type At struct {
	Place
	d *Decoder
}

// Decode reads the value at a place into the struct that to points to, after its defaults.
func (d *Decoder) Decode(at Place, to any) {
	v := reflect.ValueOf(to).Elem()
	d.defaults(v)
	d.object(at, v)
}

// Default sets the fields of the struct that to points to to their defaults.
func (d *Decoder) Default(to any) { d.defaults(reflect.ValueOf(to).Elem()) }

// Defaults returns a T with the defaults of the tags of its fields: numbers, durations, texts and words of enum.
func Defaults[T any]() (v T) {
	(&Decoder{}).Default(&v)
	return v
}

func (d *Decoder) defaults(v reflect.Value) {
	if s := d.structOf(v.Type()); s.zero.IsValid() {
		v.Set(s.zero)
		return
	}
	s := d.structOf(v.Type())
	unique := d.unique // a default is not a value of the file
	d.unique = nil
	defer func() { d.unique = unique }()
	for _, f := range s.fields {
		to := v.FieldByIndex(f.index)
		switch {
		case f.preset != nil:
			d.value(Place{Path: f.name, Node: f.preset}, f, to)
		case f.kind == nil && to.Kind() == reflect.Struct:
			d.defaults(to)
		}
	}
	s.zero = reflect.New(v.Type()).Elem()
	s.zero.Set(v)
}

// value reads a value of any kind.
func (d *Decoder) value(at Place, f *field, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(at, f, v.Elem())
	case f.kind != nil && f.kind.Read != nil:
		f.kind.Read(d, at, v)
	case f.kind != nil:
		d.scalar(at, f, v)
	case v.Kind() == reflect.Slice:
		d.list(at, f, v)
	case v.Kind() == reflect.Map:
		d.entries(at, f, v)
	default:
		d.defaults(v)
		d.object(at, v)
	}
}

// scalar reads a text, and checks that it is the only one of its value where the field says so.
func (d *Decoder) scalar(at Place, f *field, v reflect.Value) {
	before := len(d.Errors)
	var text string
	d.Text(&text, func(s string) string { return f.parse(s, v) })(at)
	if f.unique == "" || len(d.Errors) > before {
		return
	}
	scope := f.unique
	if scope == "true" {
		scope = at.Path[:max(0, strings.LastIndexByte(at.Path, '['))] + "." + f.name
	}
	if d.unique == nil {
		d.unique = map[string]Place{}
	}
	id := scope + "\x00" + textOf(v)
	if first, twice := d.unique[id]; twice {
		d.Fail(at, "%s is already at %s, in line %d", textOf(v), first.Path, first.Node.Line)
		return
	}
	d.unique[id] = at
}

// list reads a list. It has an element for every item, also for wrong ones.
func (d *Decoder) list(at Place, f *field, v reflect.Value) {
	v.SetZero()
	d.List(func(item Place) {
		one := reflect.New(v.Type().Elem()).Elem()
		d.value(item, f.item, one)
		v.Set(reflect.Append(v, one))
	})(at)
	if f.min != nil && v.Len() == 0 {
		d.Missing(Place{Node: at.Node}, at.Path, d.missing(at.Path))
	}
}

// entries reads a mapping with arbitrary names.
func (d *Decoder) entries(at Place, f *field, v reflect.Value) {
	at, ok := d.resolve(at)
	if !ok {
		return
	}
	if at.Node.Kind != yaml.MappingNode || len(at.Node.Content) == 0 {
		d.Fail(at, "must be a mapping, as in {name: value}")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	fields := map[string]Field{}
	for i := 0; i+1 < len(at.Node.Content); i += 2 {
		key := at.Node.Content[i]
		if key.Tag == "!!merge" {
			d.Fail(Place{Path: join(at.Path, key.Value), Node: key}, "mappings cannot be merged; write the names here")
			return
		}
		name := key.Value
		fields[name] = func(at Place) {
			if name == "" {
				d.Fail(at, "the name is missing")
			}
			one := reflect.New(v.Type().Elem()).Elem()
			d.value(at, f.item, one)
			v.SetMapIndex(reflect.ValueOf(name), one)
		}
	}
	d.Mapping(at, fields)
}

// object reads a mapping into a struct that has its defaults.
func (d *Decoder) object(at Place, v reflect.Value) {
	s := d.structOf(v.Type())
	at.Node = resolved(at.Node)
	is := at.Node.Kind == yaml.MappingNode
	if s.scalar != nil && !is {
		before := len(d.Errors)
		d.value(at, s.scalar, v.FieldByIndex(s.scalar.index))
		if len(d.Errors) > before && s.scalar.enum != nil {
			d.Errors[before].Text += ", or a mapping with the fields " + strings.Join(s.names(), ", ")
		}
	} else {
		d.Mapping(at, d.fields(s, v))
	}
	if !is && s.scalar == nil {
		return
	}
	for _, f := range s.fields {
		if f.required && is && !at.Has(f.name) && !slices.ContainsFunc(f.unless, at.Has) {
			d.Missing(at, f.name, d.missing(join(at.Path, f.name)))
		}
	}
	if c, ok := v.Addr().Interface().(Checker); ok {
		c.Check(At{at, d})
	}
}

func (d *Decoder) missing(path string) string {
	if d.Doc != nil {
		if doc := d.Doc(path); doc != "" {
			return "required: " + doc
		}
	}
	return "required"
}

// fields returns what reads the fields of a struct.
func (d *Decoder) fields(s *structure, v reflect.Value) map[string]Field {
	fields := make(map[string]Field, len(s.fields))
	for _, f := range s.fields {
		if f.name != "" {
			fields[f.name] = func(at Place) { d.value(at, f, v.FieldByIndex(f.index)) }
		}
	}
	if s.present != nil {
		v.FieldByIndex(s.present).SetBool(true)
	}
	if s.extra != nil {
		for _, e := range d.Extra {
			fields[e.Name] = func(at Place) {
				to := e.New()
				d.Decode(at, to)
				v.FieldByIndex(s.extra).Set(reflect.ValueOf(to))
			}
		}
	}
	return fields
}

// Fail records an error at a field, which may be missing, or for "" at the mapping itself.
func (at At) Fail(field, format string, args ...any) {
	place := at.Place
	if field != "" {
		place = at.Child(field)
	}
	at.d.Fail(place, format, args...)
}

// Missing records that a field is missing, unless an earlier error explains it.
func (at At) Missing(field, format string, args ...any) {
	at.d.Missing(at.Place, field, fmt.Sprintf(format, args...))
}

// Failed reports whether the value at this place, or one below it, is wrong.
func (at At) Failed() bool {
	return slices.ContainsFunc(at.d.Errors, func(e Error) bool {
		rest, below := strings.CutPrefix(e.Path, at.Path)
		return below && (rest == "" || at.Path == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Field returns the place of a field's value. Without the field it is the place of the mapping under the field's name.
func (at At) Field(name string) At {
	return At{at.value(name), at.d}
}

// Item returns the place of an item of a list.
func (at At) Item(i int) At { return At{at.item(i), at.d} }

// Default sets the fields of the struct that to points to to their defaults.
func (at At) Default(to any) { at.d.Default(to) }
