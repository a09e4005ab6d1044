package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// MaxDepth is how deep objects and arrays may lie in each other.
const MaxDepth = 100

// Decode reads one JSON value as jsonschema wants it, numbers as json.Number. It refuses
// what readers understand differently: a name twice in one object, invalid UTF-8, more than
// one value, and values deeper than MaxDepth.
func Decode(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more than one JSON value")
	}
	return value, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, syntax(d, err)
	}
	delim, ok := token.(json.Delim)
	switch {
	case !ok:
		return token, nil
	case depth == MaxDepth:
		return nil, fmt.Errorf("is more than %d levels deep", MaxDepth)
	case delim == '{':
		return decodeObject(d, depth)
	default: // '[': the decoder lets no other through
		return decodeArray(d, depth)
	}
}

func decodeObject(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, syntax(d, err)
		}
		name, _ := token.(string) // the decoder lets nothing else through
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("has a name twice in one object, at byte %d", d.InputOffset())
		}
		if object[name], err = decodeValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, syntax(d, err)
	}
	return object, nil
}

func decodeArray(d *json.Decoder, depth int) (any, error) {
	array := []any{}
	for d.More() {
		value, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	if _, err := d.Token(); err != nil {
		return nil, syntax(d, err)
	}
	return array, nil
}

// syntax says where the text stops being JSON, and nothing that is in it.
func syntax(d *json.Decoder, err error) error {
	at := d.InputOffset()
	var s *json.SyntaxError
	if errors.As(err, &s) {
		at = s.Offset
	}
	return fmt.Errorf("is not JSON from byte %d on", at)
}
