package toolschema

import "github.com/capgate/capgate/internal/lib/strictjson"

// MaxDepth is how deep objects and arrays may lie in each other.
const MaxDepth = strictjson.MaxDepth

// MaxValues is how many values and names arguments may have that are looked at, and a schema.
// Each costs memory many times its own bytes.
const MaxValues = 1 << 17

// Decode reads one JSON value, numbers as json.Number. It refuses what readers understand
// differently (see strictjson), values deeper than MaxDepth, and more than MaxValues.
func Decode(text []byte) (any, error) {
	r := strictjson.Get()
	defer r.Release()
	if err := r.Read(text, strictjson.Options{Keep: true, Values: MaxValues}); err != nil {
		return nil, err
	}
	return r.Root().Any(), nil
}
