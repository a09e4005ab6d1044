package strictyaml

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Kind is the form in which a file has the values of a Go type, or of the fields with a tag.
type Kind struct {
	Name string // with its article, as in "a duration"; for errors and for the reference
	Like string // end of an error, with examples, as in ", as in 500ms, 5s or 2m"
	// Parse returns the value of a text, or its problem. Neither means that it is not of this kind, and the decoder
	// says what is.
	Parse func(text string) (value any, wrong string)
	Words []string // the only texts; nil: others are possible
	// Schema returns keywords of JSON Schema that accept at least what Parse accepts; nil: any text.
	Schema map[string]any
	// Read reads a value that is not a scalar; nil: Parse reads it.
	Read func(d *Decoder, at Place, v reflect.Value)
}

// Keywords of JSON Schema. YAML's numbers and booleans are texts too.
var (
	anyText = []string{"string", "number", "boolean"}
	text    = Kind{Name: "a text", Parse: func(s string) (any, string) { return s, "" }}
	boolean = Kind{Name: "true or false", Parse: parseBool,
		Schema: map[string]any{"type": []string{"boolean", "string"}, "pattern": "^(true|false)$"}}
	integer = Kind{Name: "a whole number", Parse: parseInt,
		Schema: map[string]any{"type": []string{"integer", "string"}, "pattern": "^[+-]?[0-9]+$"}}
	number = Kind{Name: "a number", Parse: parseFloat, Schema: map[string]any{"type": []string{"number", "string"}}}
	// A duration of zero needs no unit, so that YAML takes it for a number.
	duration = Kind{Name: "a duration", Like: ", as in 500ms, 5s or 2m", Parse: parseDuration,
		Schema: map[string]any{"type": []string{"string", "integer"}, "minimum": 0, "maximum": 0,
			"pattern": `^[+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`}}
)

// standard returns the kind of a Go type.
func standard(t reflect.Type) *Kind {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return &duration
	case t.Kind() == reflect.Bool:
		return &boolean
	case t.Kind() == reflect.Float64:
		return &number
	case t.Kind() == reflect.String:
		return &text
	}
	return &integer
}

func parseBool(s string) (any, string) {
	if s != "true" && s != "false" {
		return nil, ""
	}
	return s == "true", ""
}

func parseInt(s string) (any, string) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, ""
	}
	return n, ""
}

func parseFloat(s string) (any, string) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) {
		return nil, ""
	}
	return n, ""
}

func parseDuration(s string) (any, string) {
	d, err := time.ParseDuration(s)
	if err != nil || strings.HasPrefix(s, "-") {
		return nil, ""
	}
	return d, ""
}

// numberOf returns what bounds are compared with.
func numberOf(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanFloat():
		return v.Float()
	}
	return 0
}

func textOf(v reflect.Value) string { return fmt.Sprint(v.Interface()) }
