package strictproto

import "bytes"

// MaxKeys is the largest number of keys in a map.
const MaxKeys = 128

// entry is the shape of an entry of a map from strings to strings.
var entry = Shape{1: String, 2: String}

// Entries are the keys of a map from strings to strings that have been read.
type Entries struct {
	keys [MaxKeys][]byte
	n    int
}

// Read reads an entry. An absent key or value is empty, because some encoders leave out empty ones. The key has
// to come first, as all encoders write it: protobuf.js 6 takes the first field for the key.
func (e *Entries) Read(msg []byte) (key, value []byte, err error) {
	r := Read(msg, &entry)
	for last := uint32(0); r.Next(); last = r.Number {
		switch {
		case r.Kind == Unknown || r.Number < last:
			return nil, nil, ErrEntry
		case r.Number == 1:
			key = r.Value
		default:
			value = r.Value
		}
	}
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return key, value, e.add(key)
}

func (e *Entries) add(key []byte) error {
	for _, k := range e.keys[:e.n] {
		if bytes.Equal(k, key) {
			return ErrKey
		}
	}
	if e.n == MaxKeys {
		return ErrEntries
	}
	e.keys[e.n] = key
	e.n++
	return nil
}
