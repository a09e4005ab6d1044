package strictyaml

import "reflect"

// Fill sets the fields of the struct that to points to that are zero and have a default, for a program that creates the
// struct without a file. It leaves out bools, and defaults of the kinds and types of a Decoder.
func Fill(to any) {
	v := reflect.ValueOf(to).Elem()
	d := &Decoder{}
	for _, f := range d.structOf(v.Type()).fields {
		if one := v.FieldByIndex(f.index); f.preset != nil && one.Kind() != reflect.Bool && one.IsZero() {
			d.value(Place{Path: f.name, Node: f.preset}, f, one)
		}
	}
}
