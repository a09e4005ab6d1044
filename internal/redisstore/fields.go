package redisstore

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// A record that is stored as a hash has one list of its fields, by which it is written, read and signed.

// field is a field of a record.
type field struct {
	name  string
	value any // see codingOf; an optional; nil: only scripts use it
}

// optional is a value that is not written if its text is "", and may be absent.
type optional struct{ value any }

// coding writes and reads a value as text.
type coding struct {
	encode func() string
	decode func(text string) bool
}

// word is the coding of a value with names.
func word[T fmt.Stringer](v *T, parse func(string) (T, bool)) coding {
	return coding{func() string { return (*v).String() }, func(text string) (ok bool) {
		*v, ok = parse(text)
		return ok
	}}
}

// codingOf returns the coding of the value to which a pointer points. A time is in milliseconds, and a []byte itself in
// hexadecimal.
func codingOf(value any) coding {
	var err error
	switch v := value.(type) {
	case *string:
		return coding{func() string { return *v }, func(text string) bool { *v = text; return true }}
	case *[]byte:
		return coding{func() string { return string(*v) }, func(text string) bool { *v = []byte(text); return true }}
	case []byte:
		return coding{func() string { return hex.EncodeToString(v) },
			func(text string) bool { return decodeHex(v, text) }}
	case *time.Time:
		return coding{func() string { return formatMillis(*v) }, func(text string) bool { return parseMillis(v, text) }}
	case *bool:
		return coding{func() string { return strconv.FormatBool(*v) }, func(text string) bool {
			*v, err = strconv.ParseBool(text)
			return err == nil
		}}
	}
	return value.(coding) //nolint:forcetypeassert // there is no other type
}

// encodeFields returns the names and texts of a record's fields, as the arguments of a command.
func encodeFields(list []field) (args []any) {
	for _, f := range list {
		o, may := f.value.(optional)
		if !may {
			o.value = f.value
		}
		if text := codingOf(o.value).encode(); text != "" || !may {
			args = append(args, f.name, text)
		}
	}
	return args
}

// decodeFields reads a record's fields. It returns whether all are well-formed.
func decodeFields(list []field, from map[string]string) bool {
	for _, f := range list {
		text, stored := from[f.name]
		o, may := f.value.(optional)
		if !may {
			o.value = f.value
		}
		if o.value != nil && (stored || !may) && !codingOf(o.value).decode(text) {
			return false
		}
	}
	return true
}

// namesOf returns the names of fields.
func namesOf(list []field) map[string]bool {
	names := make(map[string]bool, len(list))
	for _, f := range list {
		names[f.name] = true
	}
	return names
}
