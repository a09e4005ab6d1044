package config

import (
	"reflect"
	"slices"
	"strings"
)

// Values of the tag restart of a field. A field without the tag, in a struct without it, takes effect at once.
const (
	restartYes    = "yes"    // a change needs a restart
	restartSwitch = "switch" // to give the field or to leave it out needs a restart; other changes take effect at once
	restartParts  = "parts"  // changes of the fields in it that have the tag need a restart
	restartNo     = "no"     // takes effect at once, in a struct whose other fields need a restart
)

// NeedsRestart returns the fields of next that differ from those of the start and are in force only after a restart.
func NeedsRestart(started, next *Config) []string {
	fields := changed("", reflect.ValueOf(started).Elem(), reflect.ValueOf(next).Elem())
	if started.Multi != next.Multi {
		fields = append(fields, "tenants")
	}
	if started.Authenticates() != next.Authenticates() && !slices.Contains(fields, "operators") {
		fields = append(fields, "operators")
	}
	return fields
}

// changed compares the fields of two structs that have the tag, and those of the structs in them.
func changed(path string, a, b reflect.Value) (fields []string) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		name := path + yamlName(f)
		switch tag := f.Tag.Get("restart"); {
		case !f.IsExported() || yamlName(f) == "-":
		case tag == "" && f.Type.Kind() == reflect.Struct:
			if yamlName(f) != "" { // not inline
				name += "."
			}
			fields = append(fields, changed(name, a.Field(i), b.Field(i))...)
		case tag != "" && !same(tag, a.Field(i), b.Field(i)):
			fields = append(fields, name)
		}
	}
	return fields
}

// same reports whether two values of a field differ in nothing that needs a restart.
func same(tag string, a, b reflect.Value) bool {
	switch {
	case tag == restartNo || tag == "":
		return true
	case tag == restartSwitch:
		return a.IsZero() == b.IsZero()
	case a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Struct:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(tag, a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case a.Kind() == reflect.Struct && hasTags(a.Type()):
		for i := range a.NumField() {
			of := a.Type().Field(i).Tag.Get("restart")
			if of == "" && tag == restartYes {
				of = restartYes
			}
			if !same(of, a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func hasTags(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("restart") != "" {
			return true
		}
	}
	return false
}

// RestartNote returns a sentence for the documentation of a field; "" if a change of it takes effect at once.
func RestartNote(f reflect.StructField) string {
	switch f.Tag.Get("restart") {
	case restartYes:
		return "A change needs a restart."
	case restartSwitch:
		return "To turn it on or off needs a restart."
	case restartNo:
		return "A change takes effect at once."
	}
	return ""
}

func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}
