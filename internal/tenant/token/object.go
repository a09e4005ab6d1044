package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// maxDepth is the greatest nesting depth of a token's objects and lists.
const maxDepth = 32

// object is a JSON object with unique names: parsers differ in which of two equal names they use (RFC 8259 §4).
// Numbers are json.Number.
type object map[string]any

var errJSON = errors.New("is not a JSON object with unique names")

func decodeObject(data []byte) (object, error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, errJSON
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	value, err := decodeValue(d, 0)
	if o, ok := value.(object); ok && err == nil {
		return o, nil
	}
	return nil, errJSON
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errJSON
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			key, _ := name.(string)
			if _, twice := o[key]; twice {
				return nil, errJSON
			}
			if o[key], err = decodeValue(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return o, err
	}
	return t, nil
}

// at returns a claim by its name, or by the path to it.
func (o object) at(path string) (any, bool) {
	if v, ok := o[path]; ok {
		return v, true
	}
	first, rest, ok := strings.Cut(path, ".")
	below, isObject := o[first].(object)
	if !ok || !isObject {
		return nil, false
	}
	return below.at(rest)
}

// text returns a claim that must be a non-empty string.
func (o object) text(path string) (string, error) {
	v, _ := o.at(path)
	if s, ok := v.(string); ok && s != "" {
		return s, nil
	}
	return "", errors.New(path + " is missing, or not a string")
}

// texts returns the strings of a claim: one, or a list.
func (o object) texts(path string) ([]string, error) {
	v, ok := o.at(path)
	if s, one := v.(string); one {
		return []string{s}, nil
	}
	list, isList := v.([]any)
	if ok && !isList {
		return nil, errors.New(path + " is neither a string nor a list")
	}
	all := make([]string, 0, len(list))
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			return nil, errors.New(path + " has an element that is not a string")
		}
		all = append(all, s)
	}
	return all, nil
}

// endOfTime is the last second of the year 9999.
const endOfTime = 253402300799

// time returns a NumericDate (RFC 7519 §2); zero if it is absent.
func (o object) time(name string) (time.Time, error) {
	v, ok := o[name]
	if !ok {
		return time.Time{}, nil
	}
	number, _ := v.(json.Number)
	seconds, err := number.Float64()
	if err != nil || !(seconds >= 1 && seconds <= endOfTime) {
		return time.Time{}, errors.New(name + " is not a time")
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}
