package strictyaml

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Description describes the input that a decoder accepts at one place of a file.
type Description struct {
	Name     string // of the field; "" for the items of a list or the values of a mapping
	Doc      string
	Type     string // in words, as in "duration from 1s to 1h"
	Default  string // as YAML; "": none
	Required bool
	Unless   []string       // fields of which one makes Required false
	Fields   []*Description // of a mapping with fixed names
	Items    *Description   // of a list
	Schema   map[string]any // JSON Schema, draft 2020-12
}

// Describe describes the files that Decode reads into the struct that to points to. doc returns the documentation of
// a field of a Go struct.
func (d *Decoder) Describe(to any, doc func(of reflect.Type, field string) string) *Description {
	return d.describeStruct(reflect.TypeOf(to).Elem(), doc)
}

func (d *Decoder) describeStruct(t reflect.Type, doc func(reflect.Type, string) string) *Description {
	s := d.structOf(t)
	all := &Description{Type: "mapping"}
	properties, required, either := map[string]any{}, []string{}, []any{}
	add := func(one *Description) {
		all.Fields = append(all.Fields, one)
		properties[one.Name] = one.Schema
		switch {
		case len(one.Unless) > 0:
			var alternatives []any
			for _, name := range append([]string{one.Name}, one.Unless...) {
				alternatives = append(alternatives, map[string]any{"required": []string{name}})
			}
			either = append(either, map[string]any{"anyOf": alternatives})
		case one.Required:
			required = append(required, one.Name)
		}
	}
	for _, f := range s.fields {
		add(d.describe(f, t, doc))
	}
	if s.extra != nil {
		for _, e := range d.Extra {
			one := d.describeStruct(reflect.TypeOf(e.New()).Elem(), doc)
			one.Name = e.Name
			one.setDoc(doc(reflect.TypeOf(e.New()).Elem(), ""))
			add(one)
		}
	}
	all.Schema = map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		all.Schema["required"] = required
	}
	if len(either) > 0 {
		all.Schema["allOf"] = either
	}
	if s.scalar != nil {
		all.orScalar(d.describe(s.scalar, t, doc))
	}
	return all
}

// orScalar accepts a scalar, too. Keywords of JSON Schema apply to one type each, so that both may be in one schema.
func (d *Description) orScalar(one *Description) {
	d.Type = one.Type + ", or mapping"
	for key, value := range one.Schema {
		switch key {
		case "type":
			d.Schema[key] = append(typesOf(value), "object")
		case "enum":
			d.Schema["pattern"] = "^(" + strings.Join(value.([]string), "|") + ")$"
			d.Schema["type"] = []string{"string", "object"}
		case "description", "default":
		default:
			d.Schema[key] = value
		}
	}
}

func typesOf(value any) []string {
	if one, is := value.(string); is {
		return []string{one}
	}
	return slices.Clone(value.([]string))
}

// describe describes a field.
func (d *Decoder) describe(f *field, of reflect.Type, doc func(reflect.Type, string) string) *Description {
	t := of.FieldByIndex(f.index).Type
	one := d.describeValue(f, t, doc)
	one.Name, one.Required, one.Unless = f.name, f.required, f.unless
	one.setDoc(doc(f.of, f.goName))
	if f.preset != nil {
		one.Default = of.FieldByIndex(f.index).Tag.Get("default")
		var value json.RawMessage
		(&Reader{}).JSON(&value)(Place{Node: f.preset})
		one.Schema["default"] = value
	}
	return one
}

func (d *Description) setDoc(text string) {
	if d.Doc = text; text != "" {
		d.Schema["description"] = text
	}
}

func (d *Decoder) describeValue(f *field, t reflect.Type, doc func(reflect.Type, string) string) *Description {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case f.kind != nil:
		return f.describeScalar()
	case t.Kind() == reflect.Slice:
		items := d.describeValue(f.item, t.Elem(), doc)
		schema := map[string]any{"type": "array", "items": items.Schema}
		if f.min != nil {
			schema["minItems"] = int(*f.min)
		}
		return &Description{Type: "list: " + items.Type, Items: items, Schema: schema}
	case t.Kind() == reflect.Map:
		values := d.describeValue(f.item, t.Elem(), doc)
		return &Description{Type: "mapping of names: " + values.Type, Schema: map[string]any{"type": "object",
			"minProperties": 1, "propertyNames": map[string]any{"minLength": 1}, "additionalProperties": values.Schema}}
	}
	return d.describeStruct(t, doc)
}

func (f *field) describeScalar() *Description {
	words := f.enum
	if words == nil {
		words = f.kind.Words
	}
	if words != nil {
		return &Description{Type: oneOf(words), Schema: map[string]any{"enum": words}}
	}
	one := &Description{Type: f.allowed(), Schema: maps.Clone(f.kind.Schema)}
	for _, article := range []string{"a ", "an "} {
		one.Type = strings.TrimPrefix(one.Type, article)
	}
	if one.Schema == nil {
		one.Schema = map[string]any{"type": anyText, "minLength": 1}
	}
	f.describeBounds(one.Schema)
	return one
}

// describeBounds adds bounds. JSON Schema cannot compare durations and sizes with units.
func (f *field) describeBounds(schema map[string]any) {
	switch {
	case f.kind == &integer || f.kind == &number:
		for key, bound := range map[string]*float64{"minimum": f.min, "maximum": f.max, "exclusiveMinimum": f.above} {
			if bound != nil {
				schema[key] = *bound
			}
		}
	case f.kind == &duration && (f.min != nil && *f.min > 0 || f.above != nil):
		schema["type"] = "string"
		delete(schema, "minimum")
		delete(schema, "maximum")
	case f.max != nil && schema["minLength"] != nil:
		schema["maxLength"] = *f.max
	}
}
