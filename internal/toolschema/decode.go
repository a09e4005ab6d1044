package toolschema

import "github.com/capgate/capgate/internal/lib/strictjson"

// MaxDepth is the greatest nesting depth of objects and arrays.
const MaxDepth = strictjson.MaxDepth

// MaxValues is the greatest number of values and names in arguments that are checked, and in a schema. Each takes
// many times its own size in memory.
const MaxValues = 1 << 17

// Decode parses one JSON value, numbers as json.Number. It rejects texts that parsers interpret differently (see
// strictjson), values deeper than MaxDepth, and more than MaxValues.
func Decode(text []byte) (any, error) {
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(text, strictjson.Options{Keep: true, Values: MaxValues}); err != nil {
		return nil, err
	}
	return r.Root().Any(), nil
}
