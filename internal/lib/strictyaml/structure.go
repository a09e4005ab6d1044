package strictyaml

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/capgate/capgate/internal/lib/nearest"
)

// structure is a struct with tags.
type structure struct {
	fields  []*field
	present []int  // index of the field tagged present; nil: none
	extra   []int  // index of the field tagged extra; nil: none
	scalar  *field // for which a scalar may stand in place of the mapping; nil: none
	zero    reflect.Value
}

// field is a field of the file.
type field struct {
	name, goName     string
	of               reflect.Type // struct with the field
	index            []int
	kind             *Kind // of a scalar, or of a value that reads itself; nil: a struct, a list or a map
	item             *field
	enum             []string
	yes              string     // the text for which a bool is true; "": by enum, or true
	preset           *yaml.Node // default
	required         bool
	unless           []string // fields of which one makes required false
	unique           string
	min, max, above  *float64
	low, high, floor string // the bounds as they are written
}

func (s *structure) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// structOf reads the tags of a struct.
func (d *Decoder) structOf(t reflect.Type) *structure {
	if s := d.structs[t]; s != nil {
		return s
	}
	if d.structs == nil {
		d.structs = map[reflect.Type]*structure{}
	}
	s := &structure{}
	d.structs[t] = s
	d.addFields(s, t, nil)
	return s
}

func (d *Decoder) addFields(s *structure, t reflect.Type, outer []int) {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("yaml")
		if !tagged {
			tag, _, _ = strings.Cut(sf.Tag.Get("json"), ",")
		}
		name, option, _ := strings.Cut(tag, ",")
		index := append(append([]int(nil), outer...), i)
		switch {
		case option == "inline" || sf.Anonymous && tag == "":
			d.addFields(s, sf.Type, index)
			continue
		case option == "present":
			s.present = index
			continue
		case option == "extra":
			s.extra = index
			continue
		case name == "" || name == "-" && sf.Tag.Get("enum") == "":
			continue
		}
		f := d.newField(t, &sf, strings.TrimPrefix(name, "-"))
		f.index = index
		if _, is := sf.Tag.Lookup("scalar"); is {
			s.scalar = f
		}
		if f.name != "" {
			s.fields = append(s.fields, f)
		}
	}
}

func (d *Decoder) newField(t reflect.Type, sf *reflect.StructField, name string) *field {
	f := &field{name: name, goName: sf.Name, of: t, unique: sf.Tag.Get("unique")}
	if words := sf.Tag.Get("enum"); words != "" {
		f.enum = strings.Split(words, ",")
	}
	f.yes = sf.Tag.Get("true")
	words, required := sf.Tag.Lookup("required")
	f.unless, f.required = d.Alternatives[words], required
	d.setKind(f, sf.Type, sf.Tag.Get("kind"))
	f.min, f.low = d.bound(f, sf, "min")
	f.max, f.high = d.bound(f, sf, "max")
	f.above, f.floor = d.bound(f, sf, "above")
	for item := f.item; item != nil; item = item.item { // bounds of a list of scalars count its items
		item.enum, item.unique, item.name = f.enum, f.unique, f.name
	}
	if text, is := sf.Tag.Lookup("default"); is {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err == nil && len(doc.Content) == 1 {
			f.preset = doc.Content[0]
		} else {
			d.Fail(Place{Path: t.Name() + "." + sf.Name, Node: &doc}, "default %q: %v", text, err)
		}
	}
	return f
}

// setKind finds the kind of a field: by its tag, by its type, or by that of its items.
func (d *Decoder) setKind(f *field, t reflect.Type, tag string) {
	if own := d.Types[t]; own != nil {
		f.kind = own
		return
	}
	switch t.Kind() { //nolint:exhaustive // all others are scalars
	case reflect.Pointer:
		d.setKind(f, t.Elem(), tag)
	case reflect.Slice, reflect.Map:
		f.item = &field{goName: f.goName, of: f.of}
		d.setKind(f.item, t.Elem(), tag)
	case reflect.Struct:
	default:
		if f.kind = d.Kinds[tag]; f.kind == nil {
			f.kind = standard(t)
		}
	}
}

// bound parses a bound of a value, or of the length of a text or a list.
func (d *Decoder) bound(f *field, sf *reflect.StructField, tag string) (*float64, string) {
	text, is := sf.Tag.Lookup(tag)
	if !is {
		return nil, ""
	}
	kind := f.kind
	if kind == nil || sf.Type.Kind() == reflect.String {
		kind = &integer
	}
	value, _ := kind.Parse(text)
	if value == nil {
		d.Fail(Place{Path: f.of.Name() + "." + sf.Name, Node: &yaml.Node{}}, "%s: %q cannot be parsed", tag, text)
		return nil, ""
	}
	n := numberOf(reflect.ValueOf(value))
	return &n, text
}

// parse reads a text into v, and returns its problem or "".
func (f *field) parse(text string, v reflect.Value) string {
	if f.enum != nil {
		return f.word(text, v)
	}
	value, wrong := f.kind.Parse(text)
	switch {
	case wrong != "":
		return wrong
	case value == nil && f.kind.Words != nil:
		return NotOneOf(text, f.kind.Words)
	case value == nil:
		return fmt.Sprintf("%q is not possible; it must be %s%s", text, f.allowed(), f.kind.Like)
	}
	of := reflect.ValueOf(value)
	if of.Kind() == reflect.String && f.max != nil && float64(len(text)) > *f.max {
		return fmt.Sprintf("has more than %s bytes", f.high)
	}
	if of.Kind() != reflect.String && f.outside(numberOf(of)) {
		return fmt.Sprintf("%q is not possible; it must be %s", text, f.allowed())
	}
	v.Set(of.Convert(v.Type()))
	if f.yes != "" {
		v.SetBool(text == f.yes)
	}
	return ""
}

// word reads one of the words of the tag enum.
func (f *field) word(text string, v reflect.Value) string {
	for i, word := range f.enum {
		if word != text {
			continue
		}
		switch {
		case v.Kind() == reflect.String:
			v.SetString(text)
		case v.Kind() == reflect.Bool:
			v.SetBool(text == cmp.Or(f.yes, f.enum[len(f.enum)-1]))
		case v.CanInt():
			v.SetInt(int64(i))
		default:
			v.SetUint(uint64(i)) //nolint:gosec // an index
		}
		return ""
	}
	return NotOneOf(text, f.enum)
}

// NotOneOf returns the problem of a text that is not one of a few words.
func NotOneOf(text string, words []string) string {
	return fmt.Sprintf("%q is not possible; it must be %s%s", text, oneOf(words), nearest.Hint(text, words))
}

// outside reports whether a number is out of bounds.
func (f *field) outside(n float64) bool {
	return f.min != nil && n < *f.min || f.max != nil && n > *f.max || f.above != nil && n <= *f.above
}

// allowed says what a value may be, as in "a duration from 1s to 1h".
func (f *field) allowed() string {
	text := f.kind.Name
	if b := f.bounds(); b != "" {
		text += " " + b
	}
	return text
}

// bounds says what the bounds are, as in "from 1s to 1h"; "": none.
func (f *field) bounds() string {
	switch {
	case f.above != nil && f.max != nil:
		return "above " + f.floor + " and up to " + f.high
	case f.above != nil:
		return "above " + f.floor
	case f.min != nil && f.max != nil:
		return "from " + f.low + " to " + f.high
	case f.min != nil:
		return "of at least " + f.low
	case f.max != nil:
		return "of at most " + f.high
	}
	return ""
}

// oneOf lists words, as in "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
